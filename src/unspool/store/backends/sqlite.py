"""SQLite: the store is one file, with no server to install or start."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import BusyError, NoSpaceError, NotWritableError, RejectedValueError, UnspoolError
from ...io.listing import check_regular
from ..database import Database, MatchIndex, NameTable, Row, WordIndex
from ..migrations import Migrations
from ..private_files import create_private
from ..ranking import first_id, outdated_sql
from ..rows import NOTHING

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from ...search.query import Node

_WAIT_SECONDS = 600.0
"""How long to wait for another process that writes. The first sync of a large home takes minutes, and longer on a busy
machine; the locks of a process that died are released at once."""
_CACHE_KILOBYTES = 16 << 10
_WRITER_CACHE_KILOBYTES = 4 << 10
"""The page cache of SQLite. New rows go to the same pages as the last ones: more cache makes writing no faster."""
_STEP_SECONDS = 1.0
"""How long SQLite waits in one call, during which Ctrl+C has no effect."""
_PAUSE_SECONDS = 0.02
_BUFFERED_CHARACTERS = 2 << 20
"""The amount of text that is collected before it is passed to FTS5."""
_MOST_FAULTS = 20
_STEP_PAGES = 1000
"""The number of pages that are moved or merged in one transaction of maintenance."""
_MOST_SEGMENTS = 0.2
"""The segments of the text index are merged if the smaller ones exceed this fraction of the largest."""
_MOST_FREE = 0.05
"""The fraction of the file that may be free."""
_MOST_FREE_UNCHANGED = 0.1
"""The same for files that have to be rewritten to release free pages."""
_INCREMENTAL = 2
"""The `auto_vacuum` mode of a file that can release some pages at a time."""
_KIND = 0xFF
"""The low byte of an extended error code is the kind of the error."""
_MIGRATIONS = Migrations("sqlite")
_FIRST_TABLES = frozenset(("machine", "session", "session_file", "chunk"))
"""Some tables that every store has, whichever version created it."""


class SqliteDatabase(Database):
    """SQLite with FTS5: one process writes while any number of others read."""

    def __init__(self, path: Path, *, machine: tuple[str, str], read_only: bool = False) -> None:
        """`machine` is the key and the display name of this machine."""
        self.path = path
        self.location = str(path.absolute())
        self.read_only = read_only
        self.names = NameTable(self)
        self.words: _FtsIndex = _FtsIndex(self)
        self._copy: TemporaryDirectory[str] | None = None
        """A temporary copy, if the store itself cannot be opened or upgraded."""
        self._patience: float | None = None
        """How many seconds a statement waits for other programs; None: `_WAIT_SECONDS`."""
        try:
            self._connection = self._connect()
            self._prepare(machine)
        except sqlite3.Error as error:
            self._remove_copy()
            raise _explained(error, path) from error

    def _connect(self) -> sqlite3.Connection:
        if self.read_only:
            connection = self._connect_read_only()
            _check_is_store(connection, self.path)
        else:
            create_private(self.path)
            connection = _connect(str(self.path))
            _check_is_store(connection, self.path)
            if _execute_patiently(connection, "PRAGMA page_count") == [(0,)]:
                # The mode can only be changed in an empty file.
                _execute_patiently(connection, "PRAGMA auto_vacuum = INCREMENTAL")
            _execute_patiently(connection, "PRAGMA journal_mode = WAL")
        # Without an fsync at every commit, a power failure may lose the last sessions. The next run reads them again.
        for pragma in (
            "synchronous = NORMAL",
            "temp_store = MEMORY",
            "wal_autocheckpoint = 16000",
            f"cache_size = -{_CACHE_KILOBYTES if self.read_only else _WRITER_CACHE_KILOBYTES}",
        ):
            _execute_patiently(connection, f"PRAGMA {pragma}")
        return connection

    def _connect_read_only(self) -> sqlite3.Connection:
        try:
            return connect_read_only(self.path)
        except sqlite3.OperationalError as error:
            if not is_unwritable(error):
                raise
        # A program was killed, so the newest changes are only in the write-ahead log, and SQLite has to write an index
        # of that log. It can do so for a copy.
        return _connect(str(self._copied()))

    def _copied(self) -> Path:
        # Imported late: few stores have to be copied, and all others open faster.
        import shutil
        from tempfile import TemporaryDirectory

        self._copy = TemporaryDirectory(prefix="unspool-")
        for name in (self.path.name, f"{self.path.name}-wal"):
            if (source := self.path.with_name(name)).exists():
                shutil.copyfile(source, Path(self._copy.name, name))
        return Path(self._copy.name, self.path.name)

    def _remove_copy(self) -> None:
        if self._copy is not None:
            self._copy.cleanup()

    def _prepare(self, machine: tuple[str, str]) -> None:
        if self._pending_migrations():
            if self.read_only:
                self._migrate_to_read()
            else:
                self._migrate()
        key, name = machine
        if not self.rows("SELECT id FROM machine WHERE key = ?", key) and not self.read_only:
            self.rows("INSERT INTO machine (key, name) VALUES (?, ?) ON CONFLICT DO NOTHING", key, name)
        found = self.rows("SELECT id FROM machine WHERE key = ?", key)
        self.machine = int(found[0][0]) if found else 0

    def _pending_migrations(self) -> list[tuple[int, str]]:
        ((version,),) = self.rows("PRAGMA user_version")
        return _MIGRATIONS.after(version, str(self.path))

    def _migrate_to_read(self) -> None:
        """Upgrade the store, or a copy if it cannot be written."""
        self._connection.close()
        try:
            self._connection = _connect(str(self.path))
            self._migrate()
            self._connection.close()
            self._connection = self._connect()
        except NotWritableError:
            self._connection.close()
            self._remove_copy()
            self._connection = _connect(str(self._copied()))
            self._migrate()

    def _migrate(self) -> None:
        # Another process may have started at the same time, so check again once this one has the lock.
        self.rows("BEGIN IMMEDIATE")
        try:
            for number, script in self._pending_migrations():
                for statement in _statements(script):
                    self.rows(statement)
                self.rows(f"PRAGMA user_version = {number}")
            self.rows("COMMIT")
        except BaseException:
            # SQLite itself rolls back after some errors, such as a full disk.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Run a statement and return its rows."""
        try:
            return _execute_patiently(self._connection, sql, values, patience=self._patience)
        except sqlite3.Error as error:
            raise _explained(error, self.path) from error

    def iterate(self, sql: str, *values: object) -> Generator[Row]:
        """Run a query and yield its rows as they are needed."""
        try:
            with closing(self._connection.execute(sql, values)) as cursor:
                yield from cursor
        except sqlite3.Error as error:
            raise _explained(error, self.path) from error

    def insert(self, table: str, columns: str, rows: Iterable[Row], sparse: str = "") -> None:
        """Insert many rows."""
        try:
            self._connection.executemany(_insertion(table, columns, sparse), rows)
        except sqlite3.Error as error:
            raise _explained(error, self.path) from error

    def append_change(self, row: Row) -> None:
        """Insert a row into the change log; with one writer at a time, numbers become visible in order."""
        self.insert("journal", "at, kind, session, data", [row])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything or nothing; a second writer waits."""
        self.rows("BEGIN IMMEDIATE")
        try:
            yield
            self.words.flush()
            self.rows("COMMIT")
            self.words.reset()
        except BaseException:
            self.names.reset()
            self.words.reset()
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Make all reads in the block see the same state."""
        # A local variable, because mypy assumes that the property does not change.
        is_inside = self._connection.in_transaction
        if is_inside:
            yield
            return
        self.rows("BEGIN")
        try:
            yield
        finally:
            # This fails if the database is damaged, which the reads have already reported.
            with suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("COMMIT")

    @contextmanager
    def exclusive(self, patience: float | None = None) -> Iterator[None]:
        """Hold the lock that lets only one process at a time update the sessions.

        A transaction would be too short: changes are detected before it begins. Instead, an empty database next to the
        store is locked, because every operating system releases such a lock when the process dies.
        """
        create_private(self.path.with_name(f"{self.path.name}-lock"))
        step = _STEP_SECONDS if patience is None else min(_STEP_SECONDS, patience)
        try:
            guard = sqlite3.connect(f"{self.path}-lock", isolation_level=None, timeout=step)
        except sqlite3.Error as error:
            raise _explained(error, self.path) from error
        try:
            try:
                _execute_patiently(guard, "BEGIN EXCLUSIVE", patience=patience)
            except sqlite3.Error as error:
                raise _explained(error, self.path) from error
            # Another program may also lock the store itself.
            self._patience = patience
            yield
        finally:
            self._patience = None
            guard.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
        self._remove_copy()

    def check(self) -> list[str]:
        """Return the faults that SQLite finds, such as damaged pages or rows missing in an index."""
        try:
            found = [str(text) for (text,) in self.rows(f"PRAGMA integrity_check({_MOST_FAULTS})")]
        except UnspoolError as error:
            return [str(error)]
        return [] if found == ["ok"] else found

    def compact(self) -> Iterator[None]:
        """Merge the segments of the text index, and return free pages to the file system."""
        yield from self.words.merge()
        yield from self._vacuum()

    def _vacuum(self) -> Iterator[None]:
        ((pages,),) = self.rows("PRAGMA page_count")
        ((free,),) = self.rows("PRAGMA freelist_count")
        ((mode,),) = self.rows("PRAGMA auto_vacuum")
        if mode != _INCREMENTAL:
            # The file was created by an earlier version, and can only be rewritten as a whole.
            if free > pages * _MOST_FREE_UNCHANGED:
                self.rows("PRAGMA auto_vacuum = INCREMENTAL")
                self.rows("VACUUM")
                self.rows("PRAGMA wal_checkpoint(TRUNCATE)")
                yield
            return
        if free <= pages * _MOST_FREE:
            return
        while free > 0:
            self.rows(f"PRAGMA incremental_vacuum({_STEP_PAGES})")
            yield
            ((left,),) = self.rows("PRAGMA freelist_count")
            if left >= free:
                break
            free = left
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def optimize(self) -> None:
        """Update the statistics of the query planner, and checkpoint the write-ahead log."""
        self.rows("PRAGMA optimize")
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")


class _FtsIndex(WordIndex):
    """The FTS5 table. Its row ids are in the order of ranks, so that the best matches are found without sorting.

    Texts are buffered and sorted, because FTS5 flushes its own buffer whenever a row id is lower than the previous one.
    """

    outdated = outdated_sql()

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._added: dict[int, str | bytes] = {}
        self._removed: dict[int, str] = {}
        self._buffered = 0
        self._next: dict[int, int] = {}
        """The next free id of each bucket that this transaction has used."""

    def allocate_ids(self, buckets: Sequence[int]) -> list[int]:
        return [self._allocate(bucket) for bucket in buckets]

    def _allocate(self, bucket: int) -> int:
        # If a bucket is full, the next one is used, and the text ranks slightly too high.
        while (id := self._next.get(bucket) or self._first_free(bucket)) == first_id(bucket + 1):
            self._next[bucket] = id
            bucket += 1
        self._next[bucket] = id + 1
        return id

    def _first_free(self, bucket: int) -> int:
        sql = "SELECT max(id) FROM part WHERE id >= ? AND id < ?"
        ((last,),) = self._database.rows(sql, first_id(bucket), first_id(bucket + 1))
        # Row ids start at 1.
        return int(last) + 1 if last is not None else max(1, first_id(bucket))

    def add(self, ids: Sequence[int], texts: Sequence[str | bytes], buckets: Sequence[int]) -> None:  # noqa: ARG002
        # FTS5 accepts bytes as text in UTF-8.
        self._added.update(zip(ids, texts, strict=True))
        self._count(texts)

    def remove(self, rows: list[tuple[int, str]]) -> None:
        for id, text in rows:
            if self._added.pop(id, None) is None:
                self._removed[id] = text
        self._count([text for _, text in rows])

    def _count(self, texts: Sequence[str | bytes]) -> None:
        self._buffered += sum(map(len, texts))
        if self._buffered > _BUFFERED_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        """Write the buffer. Removals come first, because their ids may have been reused."""
        removed, added = sorted(self._removed.items()), sorted(self._added.items())
        self._removed, self._added, self._buffered = {}, {}, 0
        if removed:
            self._database.insert("words", "words, rowid, text", (("delete", *row) for row in removed))
        if added:
            self._database.insert("words", "rowid, text", added)

    def reset(self) -> None:
        """Discard the buffer and the allocated ids: the transaction has ended, and another process may use the ids."""
        self._removed, self._added, self._buffered, self._next = {}, {}, 0, {}

    def remove_unknown(self, ids: list[int]) -> None:
        if not ids:
            return
        self.flush()
        # To remove a text, FTS5 needs its words in order. The index itself has them.
        self._database.rows("CREATE VIRTUAL TABLE IF NOT EXISTS temp.indexed USING fts5vocab(main, words, instance)")
        sql = """SELECT doc, group_concat(term, ' ') FROM (
            SELECT doc, term FROM temp.indexed WHERE doc IN (SELECT value FROM json_each(?)) ORDER BY doc, "offset"
            ) GROUP BY doc"""
        self.remove([(int(id), text) for id, text in self._database.rows(sql, json.dumps(ids))])

    def merge(self) -> Iterator[None]:
        """Merge all segments, step by step, if the smaller ones are large: they contain removals from the largest."""
        sizes = [int(size) for (size,) in self._database.rows("SELECT count(*) FROM words_idx GROUP BY segid")]
        if sum(sizes) <= (1 + _MOST_SEGMENTS) * max(sizes, default=0):
            return
        # A negative number starts a merge of all segments, and positive ones continue it.
        pages = -_STEP_PAGES
        while self._merge(pages):
            pages = _STEP_PAGES
            yield

    def _merge(self, pages: int) -> bool:
        """Merge some pages, and return whether there was anything to merge."""
        changes = "SELECT total_changes()"
        with self._database.transaction():
            ((before,),) = self._database.rows(changes)
            self._database.rows("INSERT INTO words (words, rank) VALUES ('merge', ?)", pages)
            ((after,),) = self._database.rows(changes)
        # The statement itself counts as one.
        return bool(after - before > 1)

    def index(self, node: Node | None) -> MatchIndex:
        if node is None:
            return MatchIndex("part", "TRUE", [], "part.id")
        # Imported late: listing and syncing sessions also open the store, but do not search.
        from ...search.query import to_fts5

        # SQLite never reorders the tables of a cross join, whatever the planner estimates.
        tables = "words CROSS JOIN part ON part.id = words.rowid"
        return MatchIndex(tables, "words MATCH ?", [to_fts5(node)], "words.rowid")


@lru_cache(maxsize=64)
def _insertion(table: str, columns: str, sparse: str) -> str:
    names = columns.split(", ")
    marks = ", ".join(f"nullif(?, {NOTHING})" if name in sparse.split(", ") else "?" for name in names)
    return f"INSERT INTO {table} ({columns}) VALUES ({marks})"


def _connect(location: str) -> sqlite3.Connection:
    """Open a path or a URI."""
    connection = sqlite3.connect(
        location,
        uri=location.startswith("file:"),
        isolation_level=None,
        timeout=_STEP_SECONDS,
        check_same_thread=False,
        cached_statements=256,
    )
    connection.create_function("translate", 3, _translated, deterministic=True)
    return connection


def _translated(text: str | None, letters: str, others: str) -> str | None:
    """The function `translate` of PostgreSQL, for strings of the same length: replace each letter by another one."""
    return None if text is None else text.translate(_table(letters, others))


@lru_cache(maxsize=16)
def _table(letters: str, others: str) -> dict[int, int]:
    return str.maketrans(letters, others)


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open a read-only connection, even in a folder that is not writable. Raises OSError for a pipe."""
    if os.path.exists(path):
        check_regular(path)
    location = f"{path.absolute().as_uri()}?mode=ro"
    connection = _connect(location)
    try:
        _execute_patiently(connection, "SELECT 1 FROM sqlite_master LIMIT 1")
    except sqlite3.OperationalError as error:
        connection.close()
        log = path.with_name(f"{path.name}-wal")
        if not is_unwritable(error) or (log.exists() and log.stat().st_size):
            raise
        # SQLite would create files next to it to coordinate with writers, but there can be no writers here.
        connection = _connect(f"{location}&immutable=1")
    return connection


def _check_is_store(connection: sqlite3.Connection, path: Path) -> None:
    """Raise an error if a database has tables but is not a store: nothing may be written to it."""
    tables = {name for (name,) in _execute_patiently(connection, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and not tables.issuperset(_FIRST_TABLES):
        connection.close()
        raise UnspoolError(f"{path} is the database of another program; choose another store with --store")


def is_unwritable(error: sqlite3.Error) -> bool:
    """Whether something failed because a file cannot be written or created."""
    return error.sqlite_errorcode & _KIND in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)


def machines_in(path: Path) -> list[tuple[str, str]]:
    """The keys and names of the machines in a store, the oldest first; empty for a file that is not a store yet."""
    try:
        with closing(connect_read_only(path)) as connection:
            _check_is_store(connection, path)
            has_table = _execute_patiently(connection, "SELECT 1 FROM sqlite_master WHERE name = 'machine'")
            rows = _execute_patiently(connection, "SELECT key, name FROM machine ORDER BY id") if has_table else []
    except sqlite3.Error as error:
        raise _explained(error, path) from error
    return [(str(key), str(name)) for key, name in rows]


def _execute_patiently(
    connection: sqlite3.Connection, sql: str, values: Sequence[object] = (), patience: float | None = None
) -> list[Row]:
    """Run a statement, and retry it while another process writes.

    SQLite itself waits for `_STEP_SECONDS`, but not when the journal mode is changed. A statement that failed as busy
    has had no effect, so it is safe to repeat.
    """
    until: float | None = None
    while True:
        try:
            return connection.execute(sql, values).fetchall()
        except sqlite3.OperationalError as error:
            # Waiting does not help if the snapshot is stale.
            code = error.sqlite_errorcode
            if code & _KIND != sqlite3.SQLITE_BUSY or code == sqlite3.SQLITE_BUSY_SNAPSHOT:
                raise
            until = until or time.monotonic() + (_WAIT_SECONDS if patience is None else patience)
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_SECONDS)


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, to be run one by one: `executescript` would commit the transaction."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip(" ;\n"):
        yield statement


def _explained(error: sqlite3.Error, path: Path) -> UnspoolError:
    """Convert an error to one that says what failed and what to try."""
    is_folder = os.path.isdir(path)
    text = "it is a folder" if is_folder else str(error)
    if isinstance(error, sqlite3.DataError | sqlite3.IntegrityError | sqlite3.InterfaceError):
        return RejectedValueError(f"{path} does not accept a value: {text}")
    if "locked" in text or "busy" in text:
        return BusyError(f"{path} is locked by another program; try again")
    if "disk is full" in text or "disk I/O" in text:
        kind = NoSpaceError if "full" in text else UnspoolError
        return kind(f"{path} cannot be written: {text}; free some disk space and try again, nothing is lost")
    if "readonly" in text or "unable to open" in text or is_folder:
        return NotWritableError(
            f"{path} cannot be written: {text}; choose another location with UNSPOOL_DATA or --store"
        )
    if "malformed" in text or "not a database" in text:
        return UnspoolError(
            f"{path} is damaged or not an unspool store: {text}; `unspool verify --repair` rebuilds it from what can "
            "be read. If that fails, move it away and run `unspool sync`"
        )
    return UnspoolError(f"{path}: {text}")
