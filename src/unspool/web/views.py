"""The data that pages and the API return: lists, timelines, contexts and live events."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from ..core import model as m
from ..render.transcript import Entry
from ..runs.state import State
from ..store.rows import SessionRow

SpanState = Literal["in", "reply", "summarised", "dropped", "cleared", "rewound", "gap", "unsent", "after"]


class ListParams(msgspec.Struct, kw_only=True):
    """The filter and the order of a list of sessions."""

    q: str = ""
    agent: str | None = None
    project: str | None = None
    has: str | None = None
    model: str | None = None
    status: str | None = None
    after: str | None = None
    """Active at this time or later, as `parse_time` reads it."""
    before: str | None = None
    """Started before this time."""
    sort: str = "recent"
    limit: int = 200
    offset: int = 0


class ListedSession(msgspec.Struct, kw_only=True):
    """A session in a list, with the sub-agents it started."""

    row: SessionRow
    subagents: list[SessionRow]
    live: bool
    run_state: State | None = None
    """The state of the agent that this server runs on the session, or ran last."""
    shown_title: str
    """The title on one line, without Markdown syntax; a generated name if the session has no title."""


class SessionList(msgspec.Struct, kw_only=True):
    """One page of the sessions that match a filter."""

    sessions: list[ListedSession]
    total: int


class ProjectRow(msgspec.Struct, kw_only=True):
    """A folder that agents worked in."""

    path: str
    name: str
    sessions: int
    agents: list[str]
    ended_at: datetime | None


class TimelineMark(msgspec.Struct):
    """A turn or an event on the timeline of a session."""

    index: int
    at: float
    """Its position along the branch, from 0 to 1."""
    kind: str
    """`turn`, or the name of an event's mark."""
    label: str


class EntryPage(msgspec.Struct):
    """The transcript entries of one page of a branch."""

    number: int
    first: int | None
    last: int | None
    entries: list[Entry]


class ContextSpan(msgspec.Struct):
    """Consecutive messages that are in context, or missing from it, for the same reason."""

    first: int
    last: int
    state: SpanState
    why: str


class ContextView(msgspec.Struct, kw_only=True):
    """What was in the model's context before a message, and why other messages were not."""

    message_index: int
    count: int
    stretches: list[ContextSpan]
    tokens: int | None
    """Input tokens of the request, if they were recorded."""
    recorded: bool
    omitted_calls: list[str]
    made_up_results: list[str]
    summaries: list[str]


# --- live events -----------------------------------------------------------------------------------------------------


class LiveEntry(msgspec.Struct):
    """A transcript entry that is new or has changed, rendered as HTML."""

    key: str
    index: int
    html: str
    position: int = 0
    """The position of its message on the active branch."""


class FoundEvent(msgspec.Struct):
    """An event of a session that was found since the last change."""

    kind: str
    message_index: int | None


LiveEventKind = Literal[
    "session.created",
    "messages.appended",
    "messages.superseded",
    "branches.changed",
    "events.found",
    "subagents.changed",
    "session.changed",
    "session.ended",
    "session.gone",
    "session.forgotten",
    "resync",
    "progress",
    "updates.slow",
]


class LiveEvent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A change to the store; which fields are set depends on its kind."""

    seq: int
    at: datetime
    kind: LiveEventKind
    session: SessionRow | None = None
    name: str | None = None
    """The name of a session that has been removed."""
    agent: str | None = None
    first: int | None = None
    count: int | None = None
    last: int | None = None
    messages: list[m.Message] | None = None
    """The new messages, unless there are too many."""
    entries: list[LiveEntry] | None = None
    """For a session that the client watches: new transcript entries, and calls that received their result."""
    position: int | None = None
    """The position of the first new message on the active branch."""
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
    """For `resync`: why the client has to reload; for `updates.slow`: why changes of files are noticed late."""
    done: int | None = None
    total: int | None = None
    bytes_done: int | None = None
    bytes_total: int | None = None
