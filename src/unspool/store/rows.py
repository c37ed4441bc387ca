"""What goes into a store and comes out of it."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from ..core import model as m

NOTHING = -1
"""Stands for nothing in columns of many rows: SQLite's driver takes ten times as long over None."""


class FileRow(NamedTuple):
    """A file of an agent, as it was last seen."""

    id: int
    agent: str
    path: str
    device: int
    inode: int
    size: int
    changed: int
    """When it was written to, in nanoseconds."""
    kept: int
    """How many of its bytes are in the archive."""
    mark: bytes
    """A digest of the beginning and of the last bytes that are kept."""
    gone_at: float | None


class SessionRow(msgspec.Struct, kw_only=True):
    """A session in a list."""

    id: int
    machine: str
    agent: str
    name: str
    ref: str
    kind: m.Kind
    parent: str | None
    origin: str | None
    project: str | None
    title: str | None
    started_at: datetime | None
    ended_at: datetime | None
    status: m.Status
    messages: int
    counts: dict[str, int]
    gone_at: datetime | None


class StoredSession(NamedTuple):
    """What an indexer has to know of a session that is there already."""

    id: int
    name: str
    messages: int
    sealed: int
    around: str


class EventRow(msgspec.Struct, kw_only=True):
    """An event of a session, to be listed among those of others."""

    session: SessionRow
    kind: str
    message_index: int | None
    timestamp: datetime | None
    tool: str | None
    event: msgspec.Raw


class JournalEntry(msgspec.Struct, kw_only=True):
    """A change, in the order in which changes were made."""

    seq: int
    at: datetime
    kind: str
    session: int | None
    data: msgspec.Raw
