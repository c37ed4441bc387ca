"""The store in a PostgreSQL database, for a team: many machines write into it at the same time."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from itertools import chain
from typing import cast

from ...core.errors import MissingExtraError, UnspoolError
from ...search.query import All, AnyOf, Node, Not, Words, to_tsquery
from ..base import Row, Store
from ..migrations import Migrations
from ..rows import NOTHING
from ..tsvector import vectors

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import TransactionStatus
except ImportError as error:
    raise MissingExtraError(
        "a store in PostgreSQL needs a driver that is not installed; run `pip install 'unspool[postgres]'`"
    ) from error

_OLDEST = 120_000
"""The oldest version of the server whose SQL is enough, as the server counts them."""
_CONNECT_SECONDS = 30
"""How long a server may take to answer: one that is busy answers late, one that is not there never."""
_HANDFUL = 8
"""Up to so many rows, COPY takes longer than to insert them."""
_MIGRATIONS = Migrations("postgres")
_MIGRATION_LOCK = 0x756E7370
"""Known to every program that may bring the tables up to date."""
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


class PostgresStore(Store):
    """PostgreSQL with vectors of words. Many may read and write."""

    def __init__(self, address: str, *, machine: tuple[str, str]) -> None:
        """`machine` is this machine's key and name."""
        super().__init__()
        self._address = _Address(address)
        self.place = address
        self._notes: list[Row] | None = None
        self._aside: psycopg.Connection[Row] | None = None
        self._database = self._connect()
        try:
            self._prepare(machine)
        except BaseException:
            self.close()
            raise

    def _connect(self) -> psycopg.Connection[Row]:
        try:
            database = psycopg.connect(
                self._address.whole, autocommit=True, connect_timeout=_CONNECT_SECONDS, client_encoding="utf8"
            )
        except psycopg.Error as error:
            raise self._address.explained(error) from error
        return cast("psycopg.Connection[Row]", database)

    def _prepare(self, machine: tuple[str, str]) -> None:
        version = self._database.info.server_version
        if version < _OLDEST:
            raise UnspoolError(
                f"{self._address.shown} runs PostgreSQL {version // 10000}; "
                f"unspool needs {_OLDEST // 10000} or a newer one"
            )
        ((encoding,),) = self.rows("SELECT current_setting('server_encoding')")
        if encoding != "UTF8":
            raise UnspoolError(
                f"{self._address.shown} holds {encoding}, not all of Unicode; "
                "make another with `createdb --encoding UTF8 --template template0 NAME`"
            )
        if _MIGRATIONS.after(self._version(), self._address.shown):
            self._migrate()
        key, name = machine
        if not self.rows("SELECT id FROM machine WHERE key = ?", key):
            self.rows("INSERT INTO machine (key, name) VALUES (?, ?) ON CONFLICT DO NOTHING", key, name)
        self.machine = int(self.rows("SELECT id FROM machine WHERE key = ?", key)[0][0])

    def _version(self) -> int:
        if self.rows("SELECT to_regclass('store_version')")[0][0] is None:
            return 0
        found = self.rows("SELECT version FROM store_version")
        return int(found[0][0]) if found else 0

    def _migrate(self) -> None:
        """Take the steps that are missing. Of two programs that start at once, the second finds it done."""
        # Not in the transaction: it has to begin when the other one's tables are there.
        with self._locked("SELECT pg_advisory_{}(?)", _MIGRATION_LOCK), self.transaction():
            steps = _MIGRATIONS.after(self._version(), self._address.shown)
            if not steps:
                return
            self.rows("CREATE TABLE IF NOT EXISTS store_version (version BIGINT NOT NULL)")
            for _, script in steps:
                with self._explained():
                    self._database.execute(script)
            self.rows("DELETE FROM store_version")
            self.rows("INSERT INTO store_version (version) VALUES (?)", steps[-1][0])

    # --- statements ---

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Run a statement."""
        return self._run(self._database, sql, values)

    def _run(self, database: psycopg.Connection[Row], sql: str, values: Iterable[object]) -> list[Row]:
        with self._explained():
            cursor = database.execute(_translated(sql), _storable(values))
            return cursor.fetchall() if cursor.description is not None else []

    def insert(self, table: str, columns: str, rows: Iterable[Row], sparse: str = "") -> None:
        """Add many rows."""
        ready = [_storable(row) for row in rows]
        if not ready:
            return
        for place, name in enumerate(columns.split(", ")):
            if name in sparse.split(", "):
                for row in ready:
                    row[place] = None if row[place] == NOTHING else row[place]
        with self._explained(), self._database.cursor() as cursor:
            if len(ready) <= _HANDFUL:
                marks = ", ".join(["%s"] * len(ready[0]))
                sql = f"INSERT INTO {table} ({columns}) VALUES ({marks})"
                cursor.executemany(sql, ready)
                return
            with cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
                for row in ready:
                    copy.write_row(row)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; others may write at the same time."""
        self.rows("BEGIN")
        self._notes = []
        try:
            yield
            self._write_notes(self._notes)
            self.rows("COMMIT")
        except BaseException:
            with suppress(psycopg.Error):
                if self._database.info.transaction_status != TransactionStatus.IDLE:
                    self._database.execute("ROLLBACK")
            raise
        finally:
            self._notes = None

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read several things as they are at one moment."""
        if self._database.info.transaction_status != TransactionStatus.IDLE:
            yield
            return
        self.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            with suppress(psycopg.Error):
                self._database.execute("ROLLBACK")

    @property
    def is_lost(self) -> bool:
        """The connection is gone: another has to be opened."""
        return self._database.closed or self._database.broken

    def alone(self) -> AbstractContextManager[None]:
        """Be the only one that brings this machine's sessions up to date; a second one waits."""
        return self._locked("SELECT pg_advisory_{}('machine'::regclass::int, ?)", self.machine)

    @contextmanager
    def _locked(self, sql: str, number: int) -> Iterator[None]:
        self.rows(sql.format("lock"), number)
        try:
            yield
        finally:
            # With a connection that was lost, the lock is gone as well.
            with suppress(UnspoolError):
                self.rows(sql.format("unlock"), number)

    def close(self) -> None:
        """Hang up."""
        for database in (self._database, self._aside):
            if database is not None:
                database.close()

    def tidy(self) -> None:
        """Nothing to do: the server looks after itself."""

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._address.explained(error) from error

    # --- the journal ---

    def note(self, kind: str, session: int | None, **data: object) -> None:
        """Write a change into the journal, at the end of the transaction."""
        row = (time.time(), kind, session, json.dumps(data))
        if self._notes is not None:
            self._notes.append(row)
            return
        with self.transaction():
            self._notes = [row]

    def _write_notes(self, rows: list[Row]) -> None:
        """Numbers have to be seen in their order, so nobody else takes one between this and the commit."""
        if rows:
            self.rows("SELECT pg_advisory_xact_lock('journal'::regclass::int, 0)")
            self.insert("journal", "at, kind, session, data", rows)

    # --- names and ids ---

    def _name_ids(self, names: set[str]) -> dict[str, int]:
        """Numbers that stand for names, at least for those.

        New ones are committed at once, on a connection of their own: two machines that meet new names in different
        orders would otherwise wait for each other's transactions.
        """
        new = sorted(name for name in names if name not in self._names)
        if new:
            texts = sorted({_text(name) for name in new})
            found = self._known_names(texts)
            if missing := [text for text in texts if text not in found]:
                sql = "INSERT INTO name (text) SELECT unnest(?::text[]) ON CONFLICT DO NOTHING"
                self._run(self._beside(), sql, [missing])
                found |= self._known_names(missing)
            self._names |= {name: found[_text(name)] for name in new}
        return self._names

    def _known_names(self, texts: list[str]) -> dict[str, int]:
        sql = "SELECT name.text, name.id FROM unnest(?::text[]) AS wanted JOIN name ON name.text = wanted"
        return {row[0]: int(row[1]) for row in self.rows(sql, texts)}

    def _beside(self) -> psycopg.Connection[Row]:
        """A connection that knows nothing of this one's transaction."""
        if self._aside is None or self._aside.closed:
            self._aside = self._connect()
        return self._aside

    def _take_ids(self, count: int) -> int:
        return int(self.rows("SELECT take_part_ids(?)", count)[0][0])

    # --- words ---

    def _add_words(self, first: int, texts: Sequence[str]) -> None:
        whole: list[Row] = []
        pieces: list[Row] = []
        for id, text in enumerate(texts, first):
            made = [(id, vector) for vector in vectors(_text(text))]
            if len(made) == 1:
                whole += made
            else:
                pieces += made
        self.insert("words", "part, words", whole)
        self.insert("piece", "part, words", pieces)

    def _drop_words(self, rows: list[tuple[int, str]]) -> None:
        """Nothing to do: they went with their parts."""

    def _with_words(self, node: Node) -> tuple[str, str, list[object]]:
        # A text in pieces has its words in several rows: they are asked for each word, and the answers put together.
        leaves = list(_leaves(node))
        condition = f"""part.id IN (
            SELECT part FROM words WHERE words @@ ?::tsquery
            UNION ALL SELECT part FROM piece WHERE words @@ ?::tsquery GROUP BY part HAVING {_over_pieces(node)})"""
        anywhere = AnyOf(tuple(leaves))
        return "part", condition, list(map(to_tsquery, (node, anywhere, *leaves)))


def _leaves(node: Node) -> Iterator[Words]:
    if isinstance(node, Words):
        yield node
    else:
        parts = (node.part,) if isinstance(node, Not) else node.parts
        yield from chain.from_iterable(map(_leaves, parts))


def _over_pieces(node: Node) -> str:
    """A query as a condition over all pieces of a text, with a mark for each of its leaves."""
    if isinstance(node, Words):
        return "bool_or(words @@ ?::tsquery)"
    if isinstance(node, Not):
        return f"NOT {_over_pieces(node.part)}"
    operator = " AND " if isinstance(node, All) else " OR "
    return f"({operator.join(map(_over_pieces, node.parts))})"


# --- values ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _translated(sql: str) -> str:
    """A statement with the driver's marks for values."""
    return sql.replace("%", "%%").replace("?", "%s")


def _storable(values: Iterable[object]) -> list[object]:
    return [_text(value) if isinstance(value, str) else value for value in values]


def _text(text: str) -> str:
    """Text without what PostgreSQL cannot hold: NUL, and halves of characters."""
    return text if text.isascii() and "\0" not in text else _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


# --- what went wrong -------------------------------------------------------------------------------------------------


class _Address:
    """Where the database is, and how to speak of it without its password."""

    def __init__(self, whole: str) -> None:
        self.whole = whole
        try:
            facts = conninfo_to_dict(whole)
        except psycopg.Error:
            # What the driver says of it would show all of it.
            raise UnspoolError(
                "the address of the database cannot be understood; it should be like postgresql://user@host:5432/name"
            ) from None
        self._secrets = [
            str(facts[name]) for name in ("password", "sslpassword", "oauth_client_secret") if facts.get(name)
        ]
        user = f"{facts['user']}@" if facts.get("user") else ""
        port = f":{facts['port']}" if facts.get("port") else ""
        self.shown = f"postgresql://{user}{facts.get('host') or ''}{port}/{facts.get('dbname') or ''}"

    def explained(self, error: psycopg.Error) -> UnspoolError:
        """What went wrong, and what to try."""
        text = " ".join(str(error).split())
        for secret in self._secrets:
            text = text.replace(secret, "***")
        state = error.sqlstate or _state_in(text)
        for beginning, what in _REASONS.items():
            if state.startswith(beginning):
                return UnspoolError(what.format(place=self.shown, text=text))
        return UnspoolError(f"{self.shown}: {text}")


_NOT_REACHABLE = "08"
_REASONS = {
    "28": "{place} does not let you in: {text}; check the user and the password in the address",
    "3D": "{place} has no such database: {text}; make it with `createdb`",
    "42501": "{place} does not allow this: {text}; the user needs the right to make and change tables there",
    "25006": "{place} cannot be written: {text}; name a server that takes changes",
    "53100": "{place} cannot grow: {text}; free some space on the server and run it again, nothing is lost",
    "53": "{place} has no room for more: {text}; try again later, nothing is lost",
    "40": "{place} was being changed by another program at the same place; try again, nothing is lost",
    "55P03": "{place} is being written by another program; try again",
    "57": "{place} has ended the connection: {text}; try again, nothing is lost",
    _NOT_REACHABLE: "{place} cannot be reached: {text}; check the address, and whether the server runs",
}
"""By how the server's code for the error begins."""
_STATES = {
    "password": "28P01", "authentication": "28000", "pg_hba": "28000", "role": "28000", "not exist": "3D000",
    "permission denied for": "42501", "too many": "53300", "starting up": "57P03", "shutting down": "57P03",
}  # fmt: skip
"""While one connects there is no code; words the server uses tell the same."""


def _state_in(text: str) -> str:
    return next((state for words, state in _STATES.items() if words in text), _NOT_REACHABLE)
