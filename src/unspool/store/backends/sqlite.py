"""The store in one file, for one person: nothing to install, nothing to start."""

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
from ..base import Row, Store
from ..migrations import Migrations
from ..rows import NOTHING

_WAIT_SECONDS = 600.0
"""How long another program may write before waiting for it is given up. Reading a large home for the first time takes
minutes, and longer on a busy machine; a program that has died keeps nobody waiting."""
_STEP_SECONDS = 1.0
"""How long SQLite waits by itself: meanwhile Ctrl+C is not heard."""
_PAUSE_SECONDS = 0.02
_WORDS_AT_ONCE = 16 << 20
_MIGRATIONS = Migrations("sqlite")


class SqliteStore(Store):
    """SQLite with FTS5. Many may read while one writes."""

    def __init__(self, path: Path, *, machine: tuple[str, str], read_only: bool = False) -> None:
        """`machine` is this machine's key and name."""
        super().__init__()
        self.path = path
        self.place = str(path.absolute())
        self.read_only = read_only
        self._words: list[tuple[int, Sequence[str]]] = []
        self._words_size = 0
        try:
            self._database = self._connect()
            self._prepare(machine)
        except sqlite3.Error as error:
            raise _explained(error, path) from error

    def _connect(self) -> sqlite3.Connection:
        place = f"{self.path.absolute().as_uri()}?mode=ro" if self.read_only else str(self.path)
        database = sqlite3.connect(
            place, uri=self.read_only, isolation_level=None, timeout=_STEP_SECONDS, check_same_thread=False,
            cached_statements=256,
        )  # fmt: skip
        if not self.read_only:
            _patiently(database, "PRAGMA journal_mode = WAL")
        # Without a sync at each commit a power cut may take back the last sessions; the next run reads them again.
        for pragma in (
            "synchronous = NORMAL",
            "temp_store = MEMORY",
            "wal_autocheckpoint = 16000",
            "cache_size = -65536",
        ):
            _patiently(database, f"PRAGMA {pragma}")
        return database

    def _prepare(self, machine: tuple[str, str]) -> None:
        if self._steps() and self.read_only:
            raise UnspoolError(
                f"{self.path} was written by an older unspool; run `unspool sync` once to bring it up to date"
            )
        if self._steps():
            self._migrate()
        key, name = machine
        if not self.rows("SELECT id FROM machine WHERE key = ?", key) and not self.read_only:
            self.rows("INSERT INTO machine (key, name) VALUES (?, ?) ON CONFLICT DO NOTHING", key, name)
        found = self.rows("SELECT id FROM machine WHERE key = ?", key)
        self.machine = int(found[0][0]) if found else 0

    def _steps(self) -> list[tuple[int, str]]:
        ((version,),) = self.rows("PRAGMA user_version")
        return _MIGRATIONS.after(version, str(self.path))

    def _migrate(self) -> None:
        # Another program may have begun at the same moment: what is left to do is asked again when it is our turn.
        self.rows("BEGIN IMMEDIATE")
        try:
            for number, script in self._steps():
                for statement in _statements(script):
                    self.rows(statement)
                self.rows(f"PRAGMA user_version = {number}")
            self.rows("COMMIT")
        except BaseException:
            self._database.execute("ROLLBACK")
            raise

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Run a statement."""
        try:
            return _patiently(self._database, sql, values)
        except sqlite3.Error as error:
            raise _explained(error, self.path) from error

    def insert(self, table: str, columns: str, rows: Iterable[Row], sparse: str = "") -> None:
        """Add many rows."""
        try:
            self._database.executemany(_insertion(table, columns, sparse), rows)
        except sqlite3.Error as error:
            raise _explained(error, self.path) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; a second writer waits."""
        self.rows("BEGIN IMMEDIATE")
        try:
            yield
            self._flush_words()
            self.rows("COMMIT")
        except BaseException:
            self.forget_names()
            self._words, self._words_size = [], 0
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read several things as they are at one moment."""
        is_inside = self._database.in_transaction
        if is_inside:
            yield
            return
        self.rows("BEGIN")
        try:
            yield
        finally:
            if self._database.in_transaction:
                self._database.execute("COMMIT")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the only one that brings the sessions up to date; a second one waits.

        Transactions are too short for that: what has changed is found out before they begin. An empty database beside
        the store is locked instead, which every system lets go of when a program dies.
        """
        guard = sqlite3.connect(f"{self.path}-lock", isolation_level=None, timeout=_STEP_SECONDS)
        try:
            try:
                _patiently(guard, "BEGIN EXCLUSIVE")
            except sqlite3.Error as error:
                raise _explained(error, self.path) from error
            yield
        finally:
            guard.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def tidy(self) -> None:
        """Let SQLite look after itself: statistics for its planner, and the log back into the file."""
        self.rows("PRAGMA optimize")
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def _take_ids(self, count: int) -> int:  # noqa: ARG002 - others have to reserve them
        # Only one writes at a time, so that the next free id is known.
        return int(self.rows("SELECT coalesce(max(id), 0) + 1 FROM part")[0][0])

    def _add_words(self, first: int, texts: Sequence[str]) -> None:
        # They wait: other statements in between would make FTS5 write what it has gathered, again and again.
        self._words.append((first, texts))
        self._words_size += sum(map(len, texts))
        if self._words_size > _WORDS_AT_ONCE:
            self._flush_words()

    def _flush_words(self) -> None:
        groups, self._words, self._words_size = self._words, [], 0
        if groups:
            rows = chain.from_iterable(zip(count(first), texts, strict=False) for first, texts in groups)
            self.insert("words", "rowid, text", rows)

    def _drop_words(self, rows: list[tuple[int, str]]) -> None:
        self._flush_words()
        self.insert("words", "words, rowid, text", [("delete", id, text) for id, text in rows])

    def _with_words(self, node: Node) -> tuple[str, str, list[object]]:
        return "words JOIN part ON part.id = words.rowid", "words MATCH ?", [to_fts5(node)]


@lru_cache(maxsize=64)
def _insertion(table: str, columns: str, sparse: str) -> str:
    names = columns.split(", ")
    marks = ", ".join(f"nullif(?, {NOTHING})" if name in sparse.split(", ") else "?" for name in names)
    return f"INSERT INTO {table} ({columns}) VALUES ({marks})"


def _patiently(database: sqlite3.Connection, sql: str, values: Sequence[object] = ()) -> list[Row]:
    """Run a statement, again and again while another program writes.

    SQLite waits for `_STEP_SECONDS` by itself, but not when the journal is changed. A statement that had to wait has
    done nothing yet.
    """
    until: float | None = None
    while True:
        try:
            return database.execute(sql, values).fetchall()
        except sqlite3.OperationalError as error:
            # Of an extended code, the last byte tells the kind. Who has read what is no longer so waits in vain.
            code = error.sqlite_errorcode
            if code & 0xFF != sqlite3.SQLITE_BUSY or code == sqlite3.SQLITE_BUSY_SNAPSHOT:
                raise
            until = until or time.monotonic() + _WAIT_SECONDS
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_SECONDS)


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one: running a script at once would end the transaction."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip(" ;\n"):
        yield statement


def _explained(error: sqlite3.Error, path: Path) -> UnspoolError:
    """What went wrong, and what to try."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return UnspoolError(f"{path} is being written by another program for over {_WAIT_SECONDS:.0f} s; try again")
    if "disk is full" in text or "disk I/O" in text:
        return UnspoolError(f"{path} cannot grow: {text}; free some space and run it again, nothing is lost")
    if "readonly" in text or "unable to open" in text:
        return UnspoolError(f"{path} cannot be written: {text}; choose another place with UNSPOOL_DATA or --store")
    if "malformed" in text or "not a database" in text:
        return UnspoolError(f"{path} is damaged or no store of unspool: {text}; move it away and run `unspool sync`")
    return UnspoolError(f"{path}: {text}")
