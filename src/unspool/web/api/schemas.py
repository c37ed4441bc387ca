"""Parameters and responses of the API that are not part of the record or of the store."""

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
from ...store.search import Found, SearchOrder
from ...store.usage_report import DIMENSIONS
from ..views import ListedSession, ProjectRow
from .params import Params, Synonyms

SCHEMAS = "#/components/schemas/"
MOST_MESSAGES = 1000

# --- parameters ------------------------------------------------------------------------------------------------------

Agent = Annotated[str, Meta(max_length=40, description="Sessions of this agent.")]
ProjectSubstring = Annotated[str, Meta(max_length=1000, description="Sessions whose project path contains this.")]
Key = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=300,
        description="A session: the agent's id, a unique prefix of it, or its number in the store.",
    ),
]
ProjectName = Annotated[
    str, Meta(min_length=1, max_length=4000, description="A project: its path, with slashes escaped, or its name.")
]
Index = Annotated[int, Meta(ge=0, le=2**31 - 1, description="A message, counted from 0 in the order of the log.")]
After = Annotated[
    str, Meta(max_length=40, description="Start of the period: 2026-11-01, 2026-11-01T14:30, 7d, 12h or today.")
]
Before = Annotated[str, Meta(max_length=40, description="End of the period, in the same forms.")]
ModelName = Annotated[str, Meta(max_length=200, description="Only this model, by its recorded name.")]
Grouping = Annotated[
    str, Meta(max_length=100, description=f"What to group by, separated by commas: {', '.join(DIMENSIONS)}.")
]
Limit = Annotated[int, Meta(ge=1, le=500, description="Maximum number of items.")]
Offset = Annotated[int, Meta(ge=0, le=2**31 - 1, description="Number of items to skip.")]
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


class NoParams(Params):
    """No parameters."""


class SessionsParams(Params):
    """Selects the sessions to list."""

    synonyms: ClassVar[Synonyms] = {"has": _event_name}

    q: Annotated[str, Meta(max_length=1000, description="Text in the title, the project, the id or the agent.")] = ""
    agent: Agent | UnsetType = UNSET
    project: Annotated[str, Meta(max_length=4000, description="Sessions of this project: its path or its name.")] = ""
    has: (
        Annotated[EventName, Meta(description="Sessions with this kind of event; synonyms like `rejected` work too.")]
        | UnsetType
    ) = UNSET
    status: Annotated[m.Status, Meta(description="Sessions with this status.")] | UnsetType = UNSET
    sort: Annotated[
        Sort, Meta(description="`recent` lists live sessions first; the other orders are stable between pages.")
    ] = "recent"
    limit: Limit = 50
    offset: Offset = 0


class ProjectParams(Params):
    """Selects the sessions of a project to list."""

    project: ProjectName
    limit: Limit = 50
    offset: Offset = 0


class SubagentParams(Params):
    """Selects a sub-agent."""

    project: ProjectName
    agent_id: Annotated[
        str, Meta(min_length=1, max_length=300, description="The id that the agent gave its sub-agent.")
    ]


class SessionParams(Params):
    """Selects a session."""

    key: Key


class MessagesParams(SessionParams):
    """Selects messages."""

    first: Index = 0
    last: (
        Annotated[
            int,
            Meta(ge=0, le=2**31 - 1, description=f"End of the range, exclusive; at most {MOST_MESSAGES:,} messages."),
        ]
        | UnsetType
    ) = UNSET


class HistoryParams(SessionParams):
    """Selects a part of a conversation."""

    branch: Annotated[
        int, Meta(ge=0, le=2**31 - 1, description="A branch of the conversation; 0 is the active one.")
    ] = 0
    before: (
        Annotated[int, Meta(ge=0, le=2**31 - 1, description="Only messages before this one, for older pages.")]
        | UnsetType
    ) = UNSET
    limit: Annotated[int, Meta(ge=1, le=200, description="Messages per page.")] = 100
    orphans: Annotated[
        OrphanMode, Meta(description="Unfinished calls: marked, hidden, or with a synthetic result.")
    ] = "mark"


class MessageParams(SessionParams):
    """Selects a message."""

    index: Index


class SessionEventsParams(SessionParams):
    """Selects events of a session."""

    synonyms: ClassVar[Synonyms] = {"kind": _event_name}

    kind: (
        Annotated[EventName, Meta(description="Only this kind of event; synonyms like `rejected` work.")] | UnsetType
    ) = UNSET


class EventsParams(Params):
    """Selects events of all sessions."""

    synonyms: ClassVar[Synonyms] = {"kind": _event_list_name}

    kind: Annotated[EventListName, Meta(description="The kind of event; synonyms such as `rejected` work too.")]
    agent: Agent | UnsetType = UNSET
    project: ProjectSubstring = ""
    tool: Annotated[str, Meta(max_length=300, description="Only calls of this tool.")] = ""
    after: After = ""
    before: Before = ""
    limit: Limit = 50
    offset: Offset = 0


class SearchParams(Params):
    """Parameters of a search."""

    q: Annotated[str, Meta(max_length=2000, description="Words and filters, as in `unspool search`.")] = ""
    regex: Annotated[str, Meta(max_length=500, description="A regular expression; filters in `q` still apply.")] = ""
    sort: Annotated[
        SearchOrder, Meta(description="Best matches first, or latest first. `regex` always sorts by time.")
    ] = "relevance"
    limit: Annotated[int, Meta(ge=1, le=100, description="Maximum number of sessions.")] = 20
    offset: Annotated[int, Meta(ge=0, le=1_000_000, description="Number of sessions to skip.")] = 0
    hits: Annotated[int, Meta(ge=1, le=20, description="Maximum number of hits per session.")] = 3


class StatsParams(Params):
    """Selects the sessions to count."""

    agent: Agent | UnsetType = UNSET
    project: ProjectSubstring = ""
    after: After = ""
    before: Before = ""


class UsageParams(StatsParams):
    """Selects the tokens to count and their grouping."""

    model: ModelName = ""
    by: Grouping = "day"


# --- responses -------------------------------------------------------------------------------------------------------

AnyEvent = Annotated[
    Any, Meta(extra_json_schema={"anyOf": [{"$ref": SCHEMAS + kind.struct.__name__} for kind in EVENT_KINDS]})
]
"""Any event of the record."""


class Projects(msgspec.Struct, kw_only=True):
    """The folders that agents worked in, the most recent first."""

    seq: int
    """The last change that this response includes; live events continue from there."""
    projects: list[ProjectRow]


class SessionPage(msgspec.Struct, kw_only=True):
    """One page of the sessions that match."""

    seq: int
    total: int
    limit: int
    offset: int
    sessions: list[ListedSession]


class _HeadStart(msgspec.Struct, kw_only=True):
    seq: int
    stored: SessionRow
    schema: str
    info: m.SessionInfo = msgspec.field(name="session")


if TYPE_CHECKING:
    _HeadFields = _HeadStart
else:
    _FIELDS = event_fields(msgspec.field(default_factory=list))
    _HeadFields = msgspec.defstruct("_HeadFields", _FIELDS, bases=(_HeadStart,), kw_only=True, omit_defaults=True)


class SessionHead(_HeadFields, kw_only=True):
    """The record of a session without its messages."""


class MessageRange(msgspec.Struct, kw_only=True):
    """Messages in the order of the log."""

    first: int
    last: int
    """Index after the last message."""
    total: int
    messages: list[m.Message]


class ImageLink(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An image and its location."""

    media_type: str | None = None
    path: str | None = None
    """Its path on this server."""
    url: str | None = None
    """Its original address, if the log does not contain it."""


if TYPE_CHECKING:
    ItemKind: TypeAlias = str
else:
    ItemKind = Literal[
        ("prompt", "answer", "thinking", "call", "image", "compaction", *(kind.name for kind in ENTRY_KINDS))
    ]


class HistoryItem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A prompt, an answer, a tool call or another entry of a conversation."""

    kind: ItemKind
    index: int
    key: str
    """Unique within the session, and stable."""
    text: str = ""
    label: str = ""
    context: m.ContextState = "live"
    timestamp: datetime | None = None
    model: str | None = None
    call: CallView | None = None
    """A tool call with its result."""
    image: ImageLink | None = None


class History(msgspec.Struct, kw_only=True):
    """A page of one branch of a conversation, oldest first; the first page requested is the end of it."""

    seq: int
    """Live events with greater numbers are not included."""
    session: SessionRow
    branch: int
    length: int
    """Number of messages on the branch."""
    items: list[HistoryItem]
    before: int | None
    """Pass this as `before` to get the previous page; null at the beginning."""


class BranchLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A branch of a conversation: the messages that only it has."""

    id: int
    """0 is the active branch."""
    length: int
    runs: list[tuple[int, int]]
    """Its messages as pairs of first and last index."""
    tip_index: int | None
    reason: m.BranchReason | None = None
    parent: int | None = None
    """The branch it forked from."""
    parent_index: int | None = None
    """The message it forked after."""


class BranchTree(msgspec.Struct, kw_only=True):
    """All branches of a conversation."""

    messages: int
    tip: int | None
    lines: list[BranchLine]


class EventItem(msgspec.Struct, kw_only=True):
    """An event of a session."""

    kind: EventName
    message_index: int | None
    timestamp: datetime | None
    text: str
    event: AnyEvent


class SessionEvents(msgspec.Struct, kw_only=True):
    """All events of a session, in the order of its messages."""

    events: list[EventItem]


class EventEntry(msgspec.Struct, kw_only=True):
    """An event with the session it happened in."""

    session: SessionRow
    kind: EventName
    message_index: int | None
    timestamp: datetime | None
    tool: str | None
    text: str
    event: AnyEvent


class EventPage(msgspec.Struct, kw_only=True):
    """One page of the events that match, newest first."""

    seq: int
    total: int
    limit: int
    offset: int
    entries: list[EventEntry]


class SearchAnswer(msgspec.Struct, kw_only=True):
    """The best matching sessions, each with its best hits."""

    found: list[Found]
    complete: bool = True
    """False if there are more results, or the search took too long."""


class Health(msgspec.Struct, kw_only=True):
    """The state of the server and its store."""

    status: Literal["ok"]
    version: str
    schema: str
    seq: int
    sessions: int
