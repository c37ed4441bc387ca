"""SQLite: the store is one file, with no server to install or start."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, count
from pathlib import Path

from ...core.errors import UnspoolError
from ...search.query import Node, to_fts5
from ..database import Database, NameTable, Row, WordIndex
from ..migrations import Migrations
from ..private_files import create_private
from ..rows import NOTHING

_WAIT_SECONDS = 600.0
"""How long to wait for another process that writes. The first sync of a large home takes minutes, and longer on a busy
machine; the locks of a process that died are released at once."""
_STEP_SECONDS = 1.0
"""How long SQLite waits in one call, during which Ctrl+C has no effect."""
_PAUSE_SECONDS = 0.02
_BUFFERED_CHARACTERS = 16 << 20
"""Text that is collected before it is passed to FTS5."""
_MIGRATIONS = Migrations("sqlite")


class SqliteDatabase(Database):
    """SQLite with FTS5: one process writes while any number of others read."""

    def __init__(self, path: Path, *, machine: tuple[str, str], read_only: bool = False) -> None:
        """`machine` is the key and the display name of this machine."""
        self.path = path
        self.location = str(path.absolute())
        self.read_only = read_only
        self.names = NameTable(self)
        self.words: _FtsIndex = _FtsIndex(self)
        try:
            self._connection = self._connect()
            self._prepare(machine)
        except sqlite3.Error as error:
            raise _explained(error, path) from error

    def _connect(self) -> sqlite3.Connection:
        location = f"{self.path.absolute().as_uri()}?mode=ro" if self.read_only else str(self.path)
        if not self.read_only:
            create_private(self.path)
        connection = sqlite3.connect(
            location, uri=self.read_only, isolation_level=None, timeout=_STEP_SECONDS, check_same_thread=False,
            cached_statements=256,
        )  # fmt: skip
        if not self.read_only:
            _execute_patiently(connection, "PRAGMA journal_mode = WAL")
        # Without a sync at every commit a power failure may lose the last sessions; the next sync reads them again.
        for pragma in (
            "synchronous = NORMAL",
            "temp_store = MEMORY",
            "wal_autocheckpoint = 16000",
            "cache_size = -65536",
        ):
            _execute_patiently(connection, f"PRAGMA {pragma}")
        return connection

    def _prepare(self, machine: tuple[str, str]) -> None:
        if self._pending_migrations() and self.read_only:
            raise UnspoolError(f"{self.path} was written by an older unspool; run `unspool sync` once to upgrade it")
        if self._pending_migrations():
            self._migrate()
        key, name = machine
        if not self.rows("SELECT id FROM machine WHERE key = ?", key) and not self.read_only:
            self.rows("INSERT INTO machine (key, name) VALUES (?, ?) ON CONFLICT DO NOTHING", key, name)
        found = self.rows("SELECT id FROM machine WHERE key = ?", key)
        self.machine = int(found[0][0]) if found else 0

    def _pending_migrations(self) -> list[tuple[int, str]]:
        ((version,),) = self.rows("PRAGMA user_version")
        return _MIGRATIONS.after(version, str(self.path))

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
            self._connection.execute("ROLLBACK")
            raise

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Run a statement and return its rows."""
        try:
            return _execute_patiently(self._connection, sql, values)
        except sqlite3.Error as error:
            raise _explained(error, self.path) from error

    def insert(self, table: str, columns: str, rows: Iterable[Row], sparse: str = "") -> None:
        """Insert many rows."""
        try:
            self._connection.executemany(_insertion(table, columns, sparse), rows)
        except sqlite3.Error as error:
            raise _explained(error, self.path) from error

    def append_change(self, row: Row) -> None:
        """Insert a row into the change log; with one writer at a time, numbers become visible in their order."""
        self.insert("journal", "at, kind, session, data", [row])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything or nothing; a second writer waits."""
        self.rows("BEGIN IMMEDIATE")
        try:
            yield
            self.words.flush()
            self.rows("COMMIT")
        except BaseException:
            self.names.reset()
            self.words.discard()
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Make all reads in the block see the same state."""
        # A local variable: mypy would take the second test of the property for the first.
        is_inside = self._connection.in_transaction
        if is_inside:
            yield
            return
        self.rows("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock of the one process that updates the sessions.

        A transaction would be too short: changes are detected before it begins. Instead an empty database beside the
        store is locked, because every operating system releases such a lock when the process dies.
        """
        create_private(self.path.with_name(f"{self.path.name}-lock"))
        guard = sqlite3.connect(f"{self.path}-lock", isolation_level=None, timeout=_STEP_SECONDS)
        try:
            try:
                _execute_patiently(guard, "BEGIN EXCLUSIVE")
            except sqlite3.Error as error:
                raise _explained(error, self.path) from error
            yield
        finally:
            guard.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def optimize(self) -> None:
        """Update the statistics of the query planner, and move the write-ahead log into the file."""
        self.rows("PRAGMA optimize")
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")


class _FtsIndex(WordIndex):
    """The FTS5 table. Texts are buffered, because FTS5 would write its own buffer at every other statement."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._buffer: list[tuple[int, Sequence[str]]] = []
        self._buffered = 0

    def allocate_ids(self, count: int) -> int:  # noqa: ARG002 - only one process writes, so nothing has to be reserved
        return int(self._database.rows("SELECT coalesce(max(id), 0) + 1 FROM part")[0][0])

    def add(self, first: int, texts: Sequence[str]) -> None:
        self._buffer.append((first, texts))
        self._buffered += sum(map(len, texts))
        if self._buffered > _BUFFERED_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        groups = self._buffer
        self.discard()
        if groups:
            rows = chain.from_iterable(zip(count(first), texts, strict=False) for first, texts in groups)
            self._database.insert("words", "rowid, text", rows)

    def discard(self) -> None:
        self._buffer, self._buffered = [], 0

    def remove(self, rows: list[tuple[int, str]]) -> None:
        self.flush()
        self._database.insert("words", "words, rowid, text", [("delete", id, text) for id, text in rows])

    def condition(self, node: Node) -> tuple[str, str, list[object]]:
        return "words JOIN part ON part.id = words.rowid", "words MATCH ?", [to_fts5(node)]


@lru_cache(maxsize=64)
def _insertion(table: str, columns: str, sparse: str) -> str:
    names = columns.split(", ")
    marks = ", ".join(f"nullif(?, {NOTHING})" if name in sparse.split(", ") else "?" for name in names)
    return f"INSERT INTO {table} ({columns}) VALUES ({marks})"


def _execute_patiently(connection: sqlite3.Connection, sql: str, values: Sequence[object] = ()) -> list[Row]:
    """Run a statement, and retry it while another process writes.

    SQLite itself waits for `_STEP_SECONDS`, but not when the journal mode is changed. A statement that was refused as
    busy has had no effect, so that it is safe to repeat.
    """
    until: float | None = None
    while True:
        try:
            return connection.execute(sql, values).fetchall()
        except sqlite3.OperationalError as error:
            # The low byte of an extended code is the kind. A stale snapshot does not get better by waiting.
            code = error.sqlite_errorcode
            if code & 0xFF != sqlite3.SQLITE_BUSY or code == sqlite3.SQLITE_BUSY_SNAPSHOT:
                raise
            until = until or time.monotonic() + _WAIT_SECONDS
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_SECONDS)


def _statements(script: str) -> Iterator[str]:
    """The statements of a script; `executescript` would commit the transaction."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip(" ;\n"):
        yield statement


def _explained(error: sqlite3.Error, path: Path) -> UnspoolError:
    """What failed, and what to try."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return UnspoolError(f"{path} has been locked by another program for over {_WAIT_SECONDS:.0f} s; try again")
    if "disk is full" in text or "disk I/O" in text:
        return UnspoolError(f"{path} cannot grow: {text}; free some space and run it again, nothing is lost")
    if "readonly" in text or "unable to open" in text:
        return UnspoolError(f"{path} cannot be written: {text}; choose another location with UNSPOOL_DATA or --store")
    if "malformed" in text or "not a database" in text:
        return UnspoolError(f"{path} is damaged or not an unspool store: {text}; move it away and run `unspool sync`")
    return UnspoolError(f"{path}: {text}")
