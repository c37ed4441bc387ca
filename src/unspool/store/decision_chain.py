"""The hash chain of the decision log: how a row is appended, and the file that protects the newest one.

Each row has the hash of the row before it, and a hash over that and its own content. So no row can be changed, removed,
replaced or moved without breaking a link. No later row protects the newest one, so its number and hash are in a file
next to the database. The file is written after the row is committed, and only by the holder of the database's write
lock. It therefore always names a committed row: the newest one or, after a crash in between, an earlier one.
"""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from ..core import typed_json
from ..io.listing import read_file
from .private_files import replace_private

HEAD_NAME = "decisions.head"
"""The file with the newest row, in the folder of the database."""
BEFORE_START = "0" * 64
"""The previous hash of the first row."""
TABLES = """
ALTER TABLE decision ADD COLUMN kind TEXT NOT NULL DEFAULT 'decision';
ALTER TABLE decision ADD COLUMN subject INTEGER;
ALTER TABLE decision ADD COLUMN previous TEXT;
ALTER TABLE decision ADD COLUMN hash TEXT;
CREATE INDEX decision_subject ON decision (subject) WHERE subject IS NOT NULL;
"""
"""Adds the chain to the table of decisions."""
_COLUMNS = "id, kind, subject, run, agent, session, data, previous, hash"
_COLUMNS_BEFORE_CHAIN = "id, 'decision', NULL, run, agent, session, data, NULL, NULL"
_INSERT = f"INSERT INTO decision ({_COLUMNS}) VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)"

LinkKind = Literal["decision", "session", "turn", "start", "break"]
"""The content of a row: a decision; the session of a decision, if it became known only later; the end of an interrupted
turn; the start of the chain; or that rows were missing when the next one was appended."""


class Content(NamedTuple):
    """The content of a row. The hash covers all of it except the session."""

    kind: LinkKind
    data: str
    subject: int | None = None
    """The number of the row that this one adds a fact to."""
    run: str = ""
    agent: str = ""
    session: str | None = None
    """For queries only: it follows from `data`, or from a later row of kind `session`."""

    def hash_after(self, previous: str) -> str:
        """The hash of a row with this content that follows another row."""
        return hash_of(previous, self.kind, self.subject, self.run, self.agent, self.data)


class Link(NamedTuple):
    """A row of the chain."""

    id: int
    content: Content
    previous: str | None
    """None in rows that are older than the chain, as is the hash."""
    hash: str | None


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number and hash of the newest row."""

    id: int
    hash: str

    def __str__(self) -> str:
        return f"{self.id}:{self.hash}"


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The data of the first row of a chain, about older rows, which had no hash when they were written."""

    first: int
    """The number of the first row of the chain."""
    older: int
    """The number of older rows."""
    digest: str
    """A hash over the older rows as they were found."""


class Break(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The data of a row of kind `break`: the newest row according to the file, and the one that was found."""

    head: Head | None
    found: Head | None


def hash_of(*parts: object) -> str:
    """A hash over a list of values. They are encoded as JSON, in which different lists never have the same text."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def links(connection: sqlite3.Connection, *, is_chained: bool = True) -> list[Link]:
    """The rows of the log, in order."""
    columns = _COLUMNS if is_chained else _COLUMNS_BEFORE_CHAIN
    rows = connection.execute(f"SELECT {columns} FROM decision ORDER BY id")
    return [
        Link(id, Content(kind, data, subject, run, agent, session), previous, hash)
        for id, kind, subject, run, agent, session, data, previous, hash in rows
    ]


# --- appending -------------------------------------------------------------------------------------------------------


def start_chain(connection: sqlite3.Connection) -> None:
    """Append the first row of the chain, in the transaction of the caller."""
    older = links(connection)
    ((newest,),) = connection.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'decision'")
    start = Start(newest + 1, len(older), digest_of_older(older))
    _insert(connection, BEFORE_START, Content("start", msgspec.json.encode(start).decode()))


def append(connection: sqlite3.Connection, folder: Path, content: Content) -> None:
    """Append a row, in the transaction of the caller, which has to be an immediate one.

    If the newest rows were removed or replaced, a row that says so is appended first. Otherwise, the new row would hide
    that.
    """
    last = _last(connection)
    head = read_head(folder)
    if last is None or not _agree(connection, head, last):
        last = _record_break(connection, head, last)
    _insert(connection, last.hash, content)


def digest_of_older(older: list[Link]) -> str:
    """A hash over rows that have none of their own."""
    return hash_of(*((link.id, link.content.run, link.content.agent, link.content.data) for link in older))


def _last(connection: sqlite3.Connection) -> Head | None:
    rows = connection.execute("SELECT id, hash FROM decision WHERE hash IS NOT NULL ORDER BY id DESC LIMIT 1")
    return next((Head(id, hash) for id, hash in rows), None)


def _agree(connection: sqlite3.Connection, head: Head | str | None, last: Head) -> bool:
    """Whether the file names a row of the chain. It may be missing only if the chain has just been started."""
    if isinstance(head, Head):
        return bool(
            connection.execute("SELECT 1 FROM decision WHERE id = ? AND hash = ?", (head.id, head.hash)).fetchone()
        )
    kinds = connection.execute("SELECT kind FROM decision WHERE id = ?", (last.id,))
    return head is None and kinds.fetchone() == ("start",)


def _record_break(connection: sqlite3.Connection, head: Head | str | None, found: Head | None) -> Head:
    data = msgspec.json.encode(Break(head if isinstance(head, Head) else None, found)).decode()
    return _insert(connection, found.hash if found is not None else BEFORE_START, Content("break", data))


def _insert(connection: sqlite3.Connection, previous: str, content: Content) -> Head:
    digest = content.hash_after(previous)
    kind, data, subject, run, agent, session = content
    cursor = connection.execute(_INSERT, (kind, subject, run, agent, session, data, previous, digest))
    return Head(int(cursor.lastrowid or 0), digest)


# --- the file with the newest row ------------------------------------------------------------------------------------


def read_head(folder: Path) -> Head | str | None:
    """The newest row according to the file; None if there is no file, the reason if it cannot be read."""
    try:
        return typed_json.decode(read_file(folder / HEAD_NAME), type=Head)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        return str(error)


def save_head(connection: sqlite3.Connection, folder: Path) -> None:
    """Write the newest row to the file. The caller holds the write lock of the database.

    If the file cannot be written, it still names an earlier row, and only the rows after that one are unprotected. That
    is no reason to withhold a decision that is already on disk.
    """
    last = _last(connection)
    if last is not None and read_head(folder) != last:
        with suppress(OSError):
            replace_private(folder / HEAD_NAME, msgspec.json.encode(last), durable=True)


def catch_up(connection: sqlite3.Connection, folder: Path) -> None:
    """Update the file if a crash prevented that. A file that contradicts the log stays as it is."""
    last = _last(connection)
    if last is not None and _agree(connection, read_head(folder), last):
        save_head(connection, folder)
