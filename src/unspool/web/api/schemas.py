"""What the API is asked and what it answers, as far as it is not part of the record or of the store."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...core import model as m
from ...core.events import (
    ENTRY_KINDS,
    EVENT_KINDS,
    EVENT_NAMES,
    LISTED_KINDS,
    event_fields,
    find_kind,
    find_listed_kind,
)
from ...core.views import OrphanMode
from ...render.transcript import CallView
from ...store.rows import SessionRow
from ...store.search import Found
from ..views import Listed, ProjectRow
from .params import Asked, Synonyms

SCHEMAS = "#/components/schemas/"
MOST_MESSAGES = 1000

# --- parameters ------------------------------------------------------------------------------------------------------

Agent = Annotated[Literal["claude", "codex", "gemini"], Meta(description="Sessions of this agent.")]
PartOfProject = Annotated[str, Meta(max_length=1000, description="Sessions in a project with this in its path.")]
Key = Annotated[
    str,
    Meta(
        min_length=1, max_length=300,
        description="A session: the agent's id, a beginning of it that fits no other, or its number in the store.",
    ),
]  # fmt: skip
NameOfProject = Annotated[
    str, Meta(min_length=1, max_length=4000, description="A project: its path, with slashes escaped, or its name.")
]
Index = Annotated[int, Meta(ge=0, le=2**31 - 1, description="A message, counted from 0 in the order of the log.")]
After = Annotated[str, Meta(max_length=40, description="2026-11-01, 2026-11-01T14:30, 7d, 12h, today: since then.")]
Before = Annotated[str, Meta(max_length=40, description="The same, for until then.")]
Limit = Annotated[int, Meta(ge=1, le=500, description="At most so many.")]
Offset = Annotated[int, Meta(ge=0, le=2**31 - 1, description="Leave out so many from the beginning.")]
Sort = Literal["recent", "started", "messages", "title"]
if TYPE_CHECKING:
    EventName: TypeAlias = str
    EventListName: TypeAlias = str
else:
    EventName = Literal[EVENT_NAMES]
    EventListName = Literal[tuple(kind.plural for kind in LISTED_KINDS)]


def _event_name(word: str) -> str:
    return find_kind(word).name


def _event_list_name(word: str) -> str:
    return find_listed_kind(word).plural


class Nothing(Asked):
    """No parameters."""


class SessionsAsked(Asked):
    """Which sessions to list."""

    synonyms: ClassVar[Synonyms] = {"has": _event_name}

    q: Annotated[str, Meta(max_length=1000, description="Words in the title, the project, the id or the agent.")] = ""
    agent: Agent | UnsetType = UNSET
    project: Annotated[str, Meta(max_length=4000, description="Sessions of this project: its path or its name.")] = ""
    has: (
        Annotated[EventName, Meta(description="Sessions with such an event; synonyms such as `rejected` work too.")]
        | UnsetType
    ) = UNSET
    status: Annotated[m.Status, Meta(description="Sessions that ended so.")] | UnsetType = UNSET
    sort: Annotated[
        Sort, Meta(description="`recent` has those at work first; the others keep their order while pages are turned.")
    ] = "recent"
    limit: Limit = 50
    offset: Offset = 0


class ProjectAsked(Asked):
    """Which sessions of a project to list."""

    project: NameOfProject
    limit: Limit = 50
    offset: Offset = 0


class AgentSessionAsked(Asked):
    """Which sub-agent."""

    project: NameOfProject
    agent_id: Annotated[str, Meta(min_length=1, max_length=300, description="The id the agent gave its sub-agent.")]


class SessionAsked(Asked):
    """Which session."""

    key: Key


class MessagesAsked(SessionAsked):
    """Which messages."""

    first: Index = 0
    last: (
        Annotated[
            int, Meta(ge=0, le=2**31 - 1, description=f"Up to this one, not included; {MOST_MESSAGES:,} at most.")
        ]
        | UnsetType
    ) = UNSET


class HistoryAsked(SessionAsked):
    """Which part of a conversation."""

    branch: Annotated[int, Meta(ge=0, le=2**31 - 1, description="A line of the conversation; 0 is the active one.")] = 0
    before: (
        Annotated[int, Meta(ge=0, le=2**31 - 1, description="Only what was said before this message: for older pages.")]
        | UnsetType
    ) = UNSET
    limit: Annotated[int, Meta(ge=1, le=200, description="Messages on a page.")] = 100
    orphans: Annotated[
        OrphanMode, Meta(description="Calls that never finished: as they are, left out, or with a made-up result.")
    ] = "mark"


class MessageAsked(SessionAsked):
    """Which message."""

    index: Index


class SessionEventsAsked(SessionAsked):
    """Which events of a session."""

    synonyms: ClassVar[Synonyms] = {"kind": _event_name}

    kind: (
        Annotated[EventName, Meta(description="Only such events; synonyms such as `rejected` work too.")] | UnsetType
    ) = UNSET


class LedgerAsked(Asked):
    """Which events of all sessions."""

    synonyms: ClassVar[Synonyms] = {"kind": _event_list_name}

    kind: Annotated[EventListName, Meta(description="What happened; synonyms such as `rejected` work too.")]
    agent: Agent | UnsetType = UNSET
    project: PartOfProject = ""
    tool: Annotated[str, Meta(max_length=300, description="Of calls of this tool.")] = ""
    after: After = ""
    before: Before = ""
    limit: Limit = 50
    offset: Offset = 0


class SearchAsked(Asked):
    """What to look for."""

    q: Annotated[str, Meta(max_length=2000, description="Words and filters, as `unspool search` takes them.")] = ""
    regex: Annotated[
        str, Meta(max_length=500, description="A regular expression, for exact code; `q` may hold filters then.")
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=100, description="At most so many sessions.")] = 20
    hits: Annotated[int, Meta(ge=1, le=20, description="Hits to show of each.")] = 3


class StatsAsked(Asked):
    """Which sessions to count."""

    agent: Agent | UnsetType = UNSET
    project: PartOfProject = ""
    after: After = ""
    before: Before = ""


# --- answers ---------------------------------------------------------------------------------------------------------

AnyEvent = Annotated[
    Any, Meta(extra_json_schema={"anyOf": [{"$ref": SCHEMAS + kind.struct.__name__} for kind in EVENT_KINDS]})
]
"""One of the events of the record."""


class Projects(msgspec.Struct, kw_only=True):
    """The folders in which agents worked, the last one first."""

    seq: int
    """The last change that this answer knows of: live events go on from there."""
    projects: list[ProjectRow]


class SessionPage(msgspec.Struct, kw_only=True):
    """Some of the sessions that fit."""

    seq: int
    total: int
    limit: int
    offset: int
    sessions: list[Listed]


class _HeadStart(msgspec.Struct, kw_only=True):
    seq: int
    stored: SessionRow
    schema: str
    info: m.SessionInfo = msgspec.field(name="session")


if TYPE_CHECKING:
    _HeadFields = _HeadStart
else:
    _HeadFields = msgspec.defstruct("_HeadFields", event_fields(), bases=(_HeadStart,), kw_only=True)


class Head(_HeadFields, kw_only=True):
    """The record of a session without its messages."""


class Messages(msgspec.Struct, kw_only=True):
    """Messages in the order of the log."""

    first: int
    last: int
    """One after the last message here."""
    total: int
    messages: list[m.Message]


class Picture(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A picture, and where to get it."""

    media_type: str | None = None
    path: str | None = None
    """On this server."""
    url: str | None = None
    """Where it was, if the log does not hold it."""


if TYPE_CHECKING:
    ItemKind: TypeAlias = str
else:
    ItemKind = Literal[
        ("prompt", "answer", "thinking", "call", "image", "compaction", *(kind.name for kind in ENTRY_KINDS))
    ]


class HistoryItem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something that was said or done."""

    kind: ItemKind
    index: int
    key: str
    """Tells it from all others of the session, and stays the same."""
    text: str = ""
    label: str = ""
    context: m.ContextState = "live"
    timestamp: datetime | None = None
    model: str | None = None
    call: CallView | None = None
    """A call of a tool together with its result."""
    image: Picture | None = None


class History(msgspec.Struct, kw_only=True):
    """A page of one line of a conversation, the oldest first; the first page that is asked for is the last one."""

    seq: int
    """Live events with greater numbers tell what is not in here."""
    session: SessionRow
    branch: int
    length: int
    """Messages of the line."""
    items: list[HistoryItem]
    before: int | None
    """Ask with this for the page before; there is none at the beginning."""


class Line(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A line of a conversation: the messages it does not share with the one it left."""

    id: int
    """0 is the active one."""
    length: int
    runs: list[tuple[int, int]]
    """Its messages as pairs of first and last."""
    tip_index: int | None
    reason: m.BranchReason | None = None
    parent: int | None = None
    """The line it left."""
    parent_index: int | None = None
    """The message after which it left."""


class Tree(msgspec.Struct, kw_only=True):
    """All lines of a conversation."""

    messages: int
    tip: int | None
    lines: list[Line]


class EventItem(msgspec.Struct, kw_only=True):
    """Something that happened in a session."""

    kind: EventName
    message_index: int | None
    timestamp: datetime | None
    text: str
    event: AnyEvent


class SessionEvents(msgspec.Struct, kw_only=True):
    """All that happened in a session, in the order of its messages."""

    events: list[EventItem]


class LedgerEntry(msgspec.Struct, kw_only=True):
    """Something that happened, with the session it happened in."""

    session: SessionRow
    kind: EventName
    message_index: int | None
    timestamp: datetime | None
    tool: str | None
    text: str
    event: AnyEvent


class Ledger(msgspec.Struct, kw_only=True):
    """Some of the events that fit, the newest first."""

    seq: int
    total: int
    limit: int
    offset: int
    entries: list[LedgerEntry]


class SearchAnswer(msgspec.Struct, kw_only=True):
    """The best sessions, each with its best hits."""

    found: list[Found]
    complete: bool = True
    """False: there are more, or the search took too long."""


class Health(msgspec.Struct, kw_only=True):
    """That the server answers, and what it holds."""

    status: Literal["ok"]
    version: str
    schema: str
    seq: int
    sessions: int
