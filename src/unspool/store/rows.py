"""Rows that are written to a store or read from it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from ..core import model as m
from ..core.timestamps import from_seconds

NOTHING = -1
"""The value that bulk inserts store as NULL: the SQLite driver takes ten times as long to bind None."""


Origin = Literal["created", "rewritten", "truncated", "edited"]


class FileRow(NamedTuple):
    """A file of an agent, as it was at the last scan."""

    id: int
    agent: str
    path: str
    device: int
    inode: int
    size: int
    changed: int
    """The modification time, in nanoseconds."""
    archived_size: int
    """The number of its bytes in the archive."""
    mark: bytes
    """A digest of the first and the last archived bytes."""
    gone_at: float | None = None
    ctime: int = 0
    """When the file system last changed anything about it, in nanoseconds; 0 if unknown."""
    verified: int = 0
    """The number of archived bytes when all of them were last compared with the file on disk."""
    archived_at: float | None = None
    """When its first bytes were archived; None in stores of earlier versions."""
    origin: Origin = "created"
    """Why this row was created: the file was new, or it replaced an earlier version."""


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


READ_AGAIN = "read again"
"""The fingerprint of a session that has to be read and written as a whole, because it is damaged in the store."""

REDACTED = "redacted "
"""The prefix of the fingerprint of a session that was stored without its secrets."""


class StoredSession(NamedTuple):
    """The columns of a stored session that ingestion needs."""

    id: int
    name: str
    messages: int
    sealed: int
    """The number of messages that can no longer change in place."""
    fingerprint: str
    """Of everything its record depends on except the session's own files; empty until it has been read as a whole."""


class EventRow(msgspec.Struct, kw_only=True):
    """An event, with the session it belongs to."""

    session: SessionRow
    kind: str
    message_index: int | None
    timestamp: datetime | None
    tool: str | None
    event: msgspec.Raw


class Change(msgspec.Struct, kw_only=True):
    """An entry of the change log. Numbers grow in the order in which changes become visible."""

    seq: int
    at: datetime
    kind: str
    session: int | None
    data: msgspec.Raw


def moment(seconds: float | None) -> datetime | None:
    """Convert a stored time."""
    return None if seconds is None else from_seconds(seconds)
