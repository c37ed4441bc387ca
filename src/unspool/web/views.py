"""What goes to a browser or a program: the shapes of answers and of live events."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from ..core import model as m
from ..render.transcript import Entry
from ..store.rows import SessionRow

State = Literal["in", "summarised", "cleared", "rewound", "unsent", "after"]


class Filter(msgspec.Struct, kw_only=True):
    """Which sessions a list shows."""

    q: str = ""
    agent: str | None = None
    project: str | None = None
    has: str | None = None
    status: str | None = None
    sort: str = "recent"
    limit: int = 200
    offset: int = 0


class Listed(msgspec.Struct, kw_only=True):
    """A session in a list, with the sub-agents it started."""

    row: SessionRow
    subagents: list[SessionRow]
    live: bool


class SessionList(msgspec.Struct, kw_only=True):
    """Some sessions of all that fit."""

    sessions: list[Listed]
    total: int


class ProjectRow(msgspec.Struct, kw_only=True):
    """A folder in which agents worked."""

    path: str
    name: str
    sessions: int
    agents: list[str]
    ended_at: datetime | None


class Mark(msgspec.Struct):
    """Something on the time line of a session."""

    index: int
    at: float
    """How far along the trail, from 0 to 1."""
    kind: str
    """`turn`, or the name of an event's mark."""
    label: str


class EntryPage(msgspec.Struct):
    """Some messages of a trail, as they are shown."""

    number: int
    first: int | None
    last: int | None
    entries: list[Entry]


class Stretch(msgspec.Struct):
    """Messages in a row that share a fate."""

    first: int
    last: int
    state: State
    why: str


class ContextView(msgspec.Struct, kw_only=True):
    """What the model had before it at a message, and what became of the rest."""

    message_index: int
    count: int
    stretches: list[Stretch]
    tokens: int | None
    """Of the request, where it was recorded."""
    recorded: bool
    omitted_calls: list[str]
    made_up_results: list[str]
    summaries: list[str]


# --- live events -----------------------------------------------------------------------------------------------------


class LiveEntry(msgspec.Struct):
    """An entry of a transcript that is new or has changed, ready to be put into the page."""

    key: str
    index: int
    html: str
    position: int = 0
    """Where its message stands in the active line."""


class FoundEvent(msgspec.Struct):
    """Something that happened in a session and was found just now."""

    kind: str
    message_index: int | None


LiveEventKind = Literal[
    "session.created", "messages.appended", "messages.superseded", "branches.changed", "events.found",
    "subagents.changed", "session.changed", "session.ended", "session.gone", "session.forgotten", "resync", "progress",
]  # fmt: skip


class LiveEvent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A change, as it is told to those who watch; which fields it has depends on its kind."""

    seq: int
    at: datetime
    kind: LiveEventKind
    session: SessionRow | None = None
    name: str | None = None
    """Of a session that is not there any more."""
    agent: str | None = None
    first: int | None = None
    count: int | None = None
    last: int | None = None
    messages: list[m.Message] | None = None
    """The new ones, where they are few."""
    entries: list[LiveEntry] | None = None
    """Of a session that the client watches: what is new in its transcript, and calls that got their result."""
    position: int | None = None
    """Where the first of them stands in the active line."""
    pages: int | None = None
    trail_length: int | None = None
    tip: int | None = None
    branches: list[m.Branch] | None = None
    subagents: list[m.Subagent] | None = None
    events: list[FoundEvent] | None = None
    status: str | None = None
    title: str | None = None
    counts: dict[str, int] | None = None
    reason: str | None = None
    """Of `resync`: why what is shown has to be loaded again."""
    done: int | None = None
    total: int | None = None
    bytes_done: int | None = None
    bytes_total: int | None = None
