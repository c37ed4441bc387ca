"""PostgreSQL: a store for a team, which many machines write to at the same time."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from itertools import count
from typing import cast

from ...core.errors import BusyError, MissingExtraError, NotWritableError, RejectedValueError, UnspoolError
from ...io.pip import install_command
from ..database import Database, NameTable, Row
from ..migrations import Migrations
from ..rows import NOTHING
from .postgres_words import VectorIndex, storable_text

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import TransactionStatus
except ImportError as error:
    raise MissingExtraError(
        f"a store in PostgreSQL needs psycopg; install it with: {install_command('postgres')}"
    ) from error

_OLDEST = 120_000
"""The oldest supported server version, in the numbering of the server."""
_CONNECT_SECONDS = 30
"""A busy server may take long to accept a connection."""
_LOCK_SECONDS = 600.0
"""How long to wait for a lock. If the network fails, a program keeps its locks until the server notices, which may take
hours."""
_FETCHED_ROWS = 1000
"""The number of rows of a long result that are fetched at a time."""
_FEW_ROWS = 8
"""Up to this many rows, INSERT is faster than COPY."""
_SET_LOCK_TIMEOUT = "SELECT set_config('lock_timeout', ?, FALSE)"
_MIGRATIONS = Migrations("postgres")
_MIGRATION_LOCK = 0x756E7370
"""The advisory lock that every process acquires before it migrates."""


class PostgresDatabase(Database):
    """PostgreSQL with `tsvector` columns: any number of processes read and write."""

    bytewise = ' COLLATE "C"'
    is_shared = True

    def __init__(self, url: str, *, machine: tuple[str, str]) -> None:
        """`machine` is the key and the display name of this machine."""
        self._address = _Address(url)
        self.location = url
        self._changes: list[Row] | None = None
        """Rows of the change log that are written at the end of the transaction."""
        self._cursors = count()
        self._second: psycopg.Connection[Row] | None = None
        self._is_restricted = False
        """Whether this role may use only some of the rows."""
        self.names = _Names(self)
        self.words = VectorIndex(self)
        self._connection = self._connect()
        try:
            self._prepare(machine)
        except BaseException:
            self.close()
            raise

    def _connect(self) -> psycopg.Connection[Row]:
        try:
            connection = psycopg.connect(
                self._address.whole, autocommit=True, connect_timeout=_CONNECT_SECONDS, client_encoding="utf8"
            )
            connection.execute(_translated(_SET_LOCK_TIMEOUT), [_milliseconds(_LOCK_SECONDS)])
        except psycopg.Error as error:
            raise self._address.explained(error) from error
        return cast("psycopg.Connection[Row]", connection)

    def _prepare(self, machine: tuple[str, str]) -> None:
        version = self._connection.info.server_version
        if version < _OLDEST:
            raise UnspoolError(
                f"{self._address.shown} runs PostgreSQL {version // 10000}; unspool needs {_OLDEST // 10000} or newer"
            )
        ((encoding,),) = self.rows("SELECT current_setting('server_encoding')")
        if encoding != "UTF8":
            raise UnspoolError(
                f"{self._address.shown} uses the encoding {encoding}, but unspool needs UTF8; "
                "create a database with `createdb --encoding UTF8 --template template0 NAME`"
            )
        if _MIGRATIONS.after(self._version(), self._address.shown):
            self._migrate()
        key, name = machine
        if not self.rows("SELECT id FROM machine WHERE key = ?", key):
            self.rows("INSERT INTO machine (key, name) VALUES (?, ?) ON CONFLICT DO NOTHING", key, name)
        found = self.rows("SELECT id FROM machine WHERE key = ?", key)
        if not found:
            raise UnspoolError(
                f"{self._address.shown} has registered this machine under another role; connect with that role, "
                "or ask the owner of the tables to change `machine.owner`"
            )
        self.machine = int(found[0][0])
        self._is_restricted = bool(self.rows("SELECT row_security_active('session')")[0][0])

    def may_change(self, session: int) -> bool:
        """Whether the role of this connection may change or remove a session."""
        return not self._is_restricted or bool(self.rows("SELECT may_change_session(?, current_user)", session)[0][0])

    def _version(self) -> int:
        if self.rows("SELECT to_regclass('store_version')")[0][0] is None:
            return 0
        found = self.rows("SELECT version FROM store_version")
        return int(found[0][0]) if found else 0

    def _migrate(self) -> None:
        """Apply the missing migrations. If two processes start together, the second one finds nothing left to do."""
        # The lock comes before the transaction, which has to see the tables that the other process committed.
        with self._locked("SELECT pg_advisory_{}(?)", _MIGRATION_LOCK), self.transaction():
            steps = _MIGRATIONS.after(self._version(), self._address.shown)
            if not steps:
                return
            if not self._version():
                self._check_is_empty()
            self.rows("CREATE TABLE IF NOT EXISTS store_version (version BIGINT NOT NULL)")
            for _, script in steps:
                with self._explained():
                    self._connection.execute(script)
            self.rows("DELETE FROM store_version")
            self.rows("INSERT INTO store_version (version) VALUES (?)", steps[-1][0])

    def _check_is_empty(self) -> None:
        """Raise an error if another program has tables where those of a store would be created."""
        found = self.rows(
            "SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
            "WHERE nspname = current_schema() AND relkind IN ('r', 'p') AND NOT EXISTS (SELECT 1 FROM pg_depend "
            "WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e') LIMIT 1"
        )
        if found:
            raise UnspoolError(
                f"{self._address.shown} has tables of another program in the schema {found[0][0]}; create a database "
                "for unspool with `createdb NAME`, or a schema that the URL names: ?options=-csearch_path%3DNAME"
            )

    # --- statements ---

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Run a statement and return its rows."""
        return self._run(self._connection, sql, values)

    def run_outside_transaction(self, sql: str, *values: object) -> list[Row]:
        """Run a statement on a second connection, outside the transaction of this one."""
        if self._second is None or self._second.closed:
            self._second = self._connect()
        return self._run(self._second, sql, values)

    def _run(self, connection: psycopg.Connection[Row], sql: str, values: Iterable[object]) -> list[Row]:
        with self._explained():
            cursor = connection.execute(_translated(sql), _storable(values))
            return cursor.fetchall() if cursor.description is not None else []

    def iterate(self, sql: str, *values: object) -> Generator[Row]:
        """Run a query and yield its rows as they are needed; the server keeps the others."""
        with self._explained(), self._connection.cursor(f"rows_{next(self._cursors)}", withhold=True) as cursor:
            cursor.itersize = _FETCHED_ROWS
            yield from cursor.execute(_translated(sql), _storable(values))

    def insert(self, table: str, columns: str, rows: Iterable[Row], sparse: str = "") -> None:
        """Insert many rows."""
        ready = [_storable(row) for row in rows]
        if not ready:
            return
        for column, name in enumerate(columns.split(", ")):
            if name in sparse.split(", "):
                for row in ready:
                    row[column] = None if row[column] == NOTHING else row[column]
        with self._explained(), self._connection.cursor() as cursor:
            # COPY does not support row-level security.
            if len(ready) <= _FEW_ROWS or self._is_restricted:
                marks = ", ".join(["%s"] * len(ready[0]))
                sql = f"INSERT INTO {table} ({columns}) VALUES ({marks})"
                cursor.executemany(sql, ready)
                return
            with cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
                for row in ready:
                    copy.write_row(row)

    def append_change(self, row: Row) -> None:
        """Insert a row into the change log at the end of the transaction."""
        if self._changes is not None:
            self._changes.append(row)
            return
        with self.transaction():
            self._changes = [row]

    def _write_changes(self, rows: list[Row]) -> None:
        """Write rows to the change log. No other process can get a number until the commit."""
        if rows:
            self.rows("SELECT pg_advisory_xact_lock('journal'::regclass::int, 0)")
            self.insert("journal", "at, kind, session, data", rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything or nothing; others may write at the same time."""
        self.rows("BEGIN")
        self._changes = []
        try:
            yield
            self._write_changes(self._changes)
            self.rows("COMMIT")
        except BaseException:
            with suppress(psycopg.Error):
                if self._connection.info.transaction_status != TransactionStatus.IDLE:
                    self._connection.execute("ROLLBACK")
            raise
        finally:
            self._changes = None

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Make all reads in the block see the same state."""
        if self._connection.info.transaction_status != TransactionStatus.IDLE:
            yield
            return
        self.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            with suppress(psycopg.Error):
                self._connection.execute("ROLLBACK")

    @property
    def is_lost(self) -> bool:
        """Whether the connection is broken and a new one has to be opened."""
        return self._connection.closed or self._connection.broken

    def exclusive(self, patience: float | None = None) -> AbstractContextManager[None]:
        """Hold the lock that lets only one process at a time update this machine's sessions."""
        return self._locked("SELECT pg_advisory_{}('machine'::regclass::int, ?)", self.machine, patience)

    @contextmanager
    def _locked(self, sql: str, number: int, patience: float | None = None) -> Iterator[None]:
        with self._lock_timeout(patience):
            self.rows(sql.format("lock"), number)
        try:
            yield
        finally:
            # A lost connection has already released the lock.
            with suppress(UnspoolError):
                self.rows(sql.format("unlock"), number)

    @contextmanager
    def _lock_timeout(self, seconds: float | None) -> Iterator[None]:
        if seconds is None:
            yield
            return
        self.rows(_SET_LOCK_TIMEOUT, _milliseconds(seconds))
        try:
            yield
        finally:
            with suppress(UnspoolError):
                self.rows(_SET_LOCK_TIMEOUT, _milliseconds(_LOCK_SECONDS))

    def close(self) -> None:
        """Close the connections."""
        for connection in (self._connection, self._second):
            if connection is not None:
                connection.close()

    def optimize(self) -> None:
        """Do nothing: the server runs its own maintenance."""

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._address.explained(error) from error


class _Names(NameTable):
    """Commits new names at once, on the second connection.

    Inside the transaction, two machines that add the same names in different orders would wait for each other.
    """

    _database: PostgresDatabase

    def ids(self, names: set[str]) -> dict[str, int]:
        new = sorted(name for name in names if name not in self._ids)
        if new:
            texts = sorted({storable_text(name) for name in new})
            found = self._known(texts)
            if missing := [text for text in texts if text not in found]:
                sql = "INSERT INTO name (text) SELECT unnest(?::text[]) ON CONFLICT DO NOTHING"
                self._database.run_outside_transaction(sql, missing)
                found |= self._known(missing)
            self._ids |= {name: found[storable_text(name)] for name in new}
        return self._ids

    def _known(self, texts: list[str]) -> dict[str, int]:
        sql = "SELECT name.text, name.id FROM unnest(?::text[]) AS wanted JOIN name ON name.text = wanted"
        return {row[0]: int(row[1]) for row in self._database.rows(sql, texts)}


def _milliseconds(seconds: float) -> str:
    # 0 would disable the timeout.
    return str(max(1, int(seconds * 1000)))


# --- values ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _translated(sql: str) -> str:
    """Replace the placeholders in a statement with those of the driver."""
    return sql.replace("%", "%%").replace("?", "%s")


def _storable(values: Iterable[object]) -> list[object]:
    return [storable_text(value) if isinstance(value, str) else value for value in values]


# --- errors -------------------------------------------------------------------------------------------------


class _Address:
    """The URL of the database, and a form of it without secrets."""

    def __init__(self, whole: str) -> None:
        self.whole = whole
        try:
            facts = conninfo_to_dict(whole)
        except psycopg.Error:
            # The driver's own message would include the password.
            raise UnspoolError(
                "the URL of the database is invalid; it should be like postgresql://user@host:5432/name"
            ) from None
        self._secrets = [
            str(facts[name]) for name in ("password", "sslpassword", "oauth_client_secret") if facts.get(name)
        ]
        user = f"{facts['user']}@" if facts.get("user") else ""
        port = f":{facts['port']}" if facts.get("port") else ""
        self.shown = f"postgresql://{user}{facts.get('host') or ''}{port}/{facts.get('dbname') or ''}"

    def explained(self, error: psycopg.Error) -> UnspoolError:
        """Convert an error to one that says what failed and what to try."""
        text = " ".join(str(error).split())
        for secret in self._secrets:
            text = text.replace(secret, "***")
        state = error.sqlstate or _state_in(text)
        for prefix, message in _MESSAGES.items():
            if state.startswith(prefix):
                return _KINDS.get(prefix, UnspoolError)(message.format(url=self.shown, text=text))
        return UnspoolError(f"{self.shown}: {text}")


_NOT_REACHABLE = "08"
_MESSAGES = {
    "28": "{url} rejected the login: {text}; check the user and the password in the URL",
    "3D": "{url} does not exist: {text}; create it with `createdb`",
    "42501": "{url} does not allow this: {text}; check the privileges of the role, and whose sessions they are",
    "25006": "{url} cannot be written: {text}; choose a server that accepts changes",
    "53100": "{url} is out of disk space: {text}; free some space on the server and try again, nothing is lost",
    "53": "{url} is out of resources: {text}; try again later, nothing is lost",
    "40": "{url} was changed by another program at the same time; try again, nothing is lost",
    "55P03": "{url} is locked by another program; try again",
    "22": "{url} does not accept a value: {text}",
    "23": "{url} does not accept a value: {text}",
    "54": "{url} does not accept a value: {text}",
    "57": "{url} ended the connection: {text}; try again, nothing is lost",
    _NOT_REACHABLE: "{url} cannot be reached: {text}; check the URL, and whether the server is running",
}
"""Messages by prefix of the SQLSTATE."""
_KINDS: dict[str, type[UnspoolError]] = {
    "55P03": BusyError, "25006": NotWritableError, "22": RejectedValueError, "23": RejectedValueError,
    "54": RejectedValueError,
}  # fmt: skip
_STATES = {
    "password": "28P01", "authentication": "28000", "pg_hba": "28000", "role": "28000", "not exist": "3D000",
    "permission denied for": "42501", "too many": "53300", "starting up": "57P03", "shutting down": "57P03",
}  # fmt: skip
"""Errors while connecting have no SQLSTATE; they are recognised by words in their message."""


def _state_in(text: str) -> str:
    return next((state for words, state in _STATES.items() if words in text), _NOT_REACHABLE)
