"""The kinds of events, as one table.

Everything that treats events alike is derived from `EVENT_KINDS`: the fields of the record, the lines of the stream,
the rows of the store, the filters and commands of the command line, the parameters of the API, and the badges, lists
and timeline of the web pages. To add a kind of event, write its Struct in `model` and one row here. How an event is
described in words is registered for its Struct in `render.event_text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, dataclass_transform

from .errors import UsageError

if TYPE_CHECKING:
    from . import model as m
    from .session import Session


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _Row:
    """Base of the parts of the table. It is not a Struct, so that `--help` does not have to load msgspec."""

    def __init__(self, **values: object) -> None:
        self.__dict__.update(values)


class Recorded(_Row):
    """The location of the events of a kind in the record and the stream."""

    field: str = ""
    """The field of the record; default: the kind's plural."""
    group_name: str = ""
    """The Struct in that field, if it is not a plain list: it also holds the events of the session this one was
    forked from."""
    tag: str = ""
    """The type of a stream line, and the field in it that holds the event; default: the kind's name."""
    collected: str = ""
    """The list of `EventLists` in which parsers collect the events; default: the field."""
    index: str | None = "message_index"
    """The field of the event that says at which message it happened."""
    is_off_path: bool = False
    """The events describe messages off the active path, so a view of that path has none."""
    is_optional: bool = False
    """The field is left out if it is empty: records that were written before the kind existed have none."""

    @cached_property
    def group(self) -> type[m.Compaction] | None:
        """The Struct in the field, if it is not a plain list."""
        return _struct(self.group_name) if self.group_name else None


class AtEvent(_Row):
    """`is:` finds the messages at which the event happened, or all of the session if it happens at no message."""


class Marked(_Row):
    """`is:` finds the messages that the store has marked."""

    word: str
    """The name of the mark in the store."""
    fields: tuple[str, ...]
    """Fields of the event that name the messages, or the tool calls in them."""


class InContext(_Row):
    """`is:` finds the messages that the event removed from the context."""

    state: m.ContextState


class OnBranch(_Row):
    """`is:` finds the messages of all branches but the active one."""


class InSubagent(_Row):
    """`is:` finds the messages of sub-agents."""


Search: TypeAlias = AtEvent | Marked | InContext | OnBranch | InSubagent


class Look(_Row):
    """The appearance of a kind of event."""

    sign: str = "•"
    terminal_sign: str = ""
    """The sign in a terminal; default: the same."""
    icon: str = ""
    """A symbol of the sprite that replaces the sign on the timeline."""
    tone: Literal["", "accent", "warn", "bad"] = ""
    badge: str = ""
    """The word after the number on a badge, such as "3 rejected"; without it there is no badge."""


class Mark(_Row):
    """The mark of a kind of event on the timeline of a session."""

    name: str = ""
    """Default: the kind's name."""
    index: str = ""
    """The field of the event with the message to mark; default: the same as in the record."""
    is_at_start: bool = False
    """An event without an index happened before the first message. Others without one are not marked."""


class Listing(_Row):
    """The list of all events of a kind, across sessions: a page, an endpoint of the API and maybe a command."""

    title: str
    about: str
    """One sentence that says what is listed."""
    empty: str
    """The explanation of an empty list."""
    command: str = ""
    """The help of the command of the same name; without it there is no command."""


class EventKind(_Row):
    """One kind of event: what it is called, where it is stored, and how it is found and shown."""

    name: str
    """Its name on the command line, in the API and in the store."""
    struct_name: str
    """Its Struct in `model`."""
    noun: str
    """The noun for one event in a sentence, with its article."""
    plural: str
    aliases: tuple[str, ...] = ()
    """Synonyms that filters accept."""
    recorded: Recorded = Recorded()
    search: Search = AtEvent()
    look: Look = Look()
    mark: Mark | None = Mark()
    listing: Listing | None = None
    rank: int = 99
    """Its position among badges and lists."""
    entry_rank: int | None = None
    """Its position among the entries that events add to a message in a transcript; None if it has no entry."""

    # Properties that are used for every session are cached.

    @cached_property
    def struct(self) -> type[Any]:
        """The Struct of its events."""
        return _struct(self.struct_name)

    @cached_property
    def field(self) -> str:
        """The field of the record that holds its events."""
        return self.recorded.field or self.plural

    @cached_property
    def collected(self) -> str:
        """The list of `EventLists` in which its events are collected."""
        return self.recorded.collected or self.field

    @property
    def tag(self) -> str:
        """The type of its stream lines."""
        return self.recorded.tag or self.name

    @property
    def count_name(self) -> str:
        """The name of its count at the end of a stream."""
        return self.field if self.recorded.group is None else self.plural

    @property
    def has_tool(self) -> bool:
        """Whether such an event is about one tool call."""
        return "tool_use_id" in self.struct.__struct_fields__

    @property
    def words(self) -> tuple[str, ...]:
        """All words that filters accept for it, the name first."""
        found = (self.name, self.plural, self.tag, self.field, self.look.badge, *self.aliases)
        return tuple(dict.fromkeys(word for word in found if word))

    def of(self, record: Any) -> list[Any]:
        """Return the events of this kind in a record, or in anything with the fields of one."""
        held: Any = getattr(record, self.field)
        events: list[Any] = held if self.recorded.group is None else held.boundaries
        return events

    def inherited(self, record: Any) -> list[Any]:
        """Return the inherited events of this kind: those of the session that this one was forked from, if recorded."""
        events: list[Any] = [] if self.recorded.group is None else getattr(record, self.field).inherited
        return events

    def value(self, events: list[Any], inherited: list[Any] | None = None) -> list[Any] | m.Compaction:
        """Return the value of the record's field for these events."""
        group = self.recorded.group
        return events if group is None else group(events, [] if inherited is None else inherited)

    def index_of(self, event: Any) -> int | None:
        """The message at which an event happened."""
        name = self.recorded.index
        index: int | None = None if name is None else getattr(event, name)
        return index

    def timeline_index(self, event: Any) -> int | None:
        """The message at which an event is marked on the timeline; None if it is not marked."""
        if self.mark is None:
            return None
        index: int | None = getattr(event, self.mark.index) if self.mark.index else self.index_of(event)
        return 0 if index is None and self.mark.is_at_start else index


def _struct(name: str) -> type[Any]:
    found: type[Any] = getattr(import_module(".model", __package__), name)
    return found


EVENT_KINDS: tuple[EventKind, ...] = (
    EventKind(
        name="compaction",
        struct_name="Boundary",
        noun="a compaction",
        plural="compactions",
        aliases=("compact", "summarised", "summarized"),
        recorded=Recorded(field="compaction", group_name="Compaction", collected="boundaries"),
        search=InContext(state="compacted"),
        look=Look(sign="▂", tone="accent", badge="compacted"),
        listing=Listing(
            title="Compactions",
            about="Where a summary replaced older messages.",
            empty="no context grew too large.",
            command="list compactions, with the tokens before and after",
        ),
        rank=3,
    ),
    EventKind(
        name="clear",
        struct_name="ContextClear",
        noun="a cleared context",
        plural="clears",
        aliases=("cleared", "context_cleared"),
        recorded=Recorded(field="context_clears", tag="context_clear", index="after_message_index"),
        search=InContext(state="cleared"),
        look=Look(sign="═", terminal_sign="∅", tone="accent"),
        mark=Mark(is_at_start=True),
        listing=Listing(
            title="Context clears",
            about="Where the context was cleared to start over.",
            empty="no context was cleared.",
            command="list where context was cleared",
        ),
        rank=4,
        entry_rank=3,
    ),
    EventKind(
        name="interruption",
        struct_name="Interruption",
        noun="an interruption",
        plural="interruptions",
        aliases=("interrupt", "stopped"),
        search=Marked(word="interrupted", fields=("message_index", "interrupted_message_index", "tool_use_ids")),
        look=Look(sign="✕", tone="bad", badge="interrupted"),
        listing=Listing(
            title="Interruptions",
            about="Turns and tool calls that were stopped before they finished.",
            empty="nothing was stopped.",
            command="list what was stopped, by whom, and what was running",
        ),
        rank=2,
        entry_rank=1,
    ),
    EventKind(
        name="rejection",
        struct_name="Rejection",
        noun="a rejection",
        plural="rejections",
        aliases=("refused", "refusal", "refusals", "denied", "denial", "denials"),
        search=Marked(word="rejected", fields=("message_index", "tool_use_id")),
        look=Look(sign="⊘", tone="warn", badge="rejected"),
        listing=Listing(
            title="Rejections",
            about="Tool calls that were rejected, with the reason if one was given.",
            empty="nothing was rejected.",
            command="list rejections, with the reason and the change or command that was rejected",
        ),
        rank=1,
    ),
    EventKind(
        name="input_change",
        struct_name="InputChange",
        noun="a changed input",
        plural="input_changes",
        aliases=("changed_input", "changed_inputs", "edited_input", "edited_inputs"),
        recorded=Recorded(is_optional=True),
        look=Look(sign="✎", tone="accent"),
    ),
    EventKind(
        name="rollback",
        struct_name="Rollback",
        noun="a rollback",
        plural="rollbacks",
        aliases=("rolled_back", "rewind", "rewinds", "rewound"),
        search=InContext(state="rewound"),
        mark=None,  # its branch is marked
    ),
    EventKind(
        name="error",
        struct_name="Failure",
        noun="a failure",
        plural="errors",
        aliases=("failure", "failures"),
        search=Marked(word="error", fields=("message_index", "tool_use_id")),
        look=Look(sign="!", tone="bad", badge="failed"),
        listing=Listing(title="Errors", about="Tool calls and requests that failed.", empty="nothing failed."),
        rank=5,
        entry_rank=2,
    ),
    EventKind(
        name="orphan",
        struct_name="Orphan",
        noun="a call without a result",
        plural="orphans",
        aliases=("orphaned", "unfinished_call", "unfinished_calls"),
        search=Marked(word="orphan", fields=("message_index",)),
        look=Look(sign="○", tone="warn", badge="unfinished"),
        listing=Listing(
            title="Unfinished calls",
            about="Tool calls without a result: the agent was stopped, or is still running.",
            empty="all calls finished.",
        ),
        rank=6,
    ),
    EventKind(
        name="subagent",
        struct_name="Subagent",
        noun="a sub-agent",
        plural="subagents",
        aliases=("sub_agent", "sub_agents"),
        search=InSubagent(),
        look=Look(icon="agent", tone="accent"),
    ),
    EventKind(
        name="resume",
        struct_name="Resume",
        noun="a resume",
        plural="resumes",
        aliases=("resumed",),
        look=Look(sign="▸", terminal_sign="↻"),
        entry_rank=4,
    ),
    EventKind(
        name="branch",
        struct_name="Branch",
        noun="an abandoned branch",
        plural="branches",
        aliases=("branched",),
        recorded=Recorded(index="root_index", is_off_path=True),
        search=OnBranch(),
        look=Look(sign="↶", tone="accent"),
        mark=Mark(name="rewind", index="parent_index", is_at_start=True),
    ),
    EventKind(
        name="problem",
        struct_name="Problem",
        noun="a damaged or unknown line",
        plural="problems",
        aliases=("damage", "damaged"),
        look=Look(sign="▲", tone="warn"),
    ),
)
"""All kinds, in the order of the record."""

EVENT_NAMES = tuple(kind.name for kind in EVENT_KINDS)
BY_NAME = {kind.name: kind for kind in EVENT_KINDS}
BADGE_KINDS = tuple(sorted((kind for kind in EVENT_KINDS if kind.look.badge), key=lambda kind: kind.rank))
"""Kinds that a list of sessions shows, the most important first."""
LISTED_KINDS = tuple(sorted((kind for kind in EVENT_KINDS if kind.listing), key=lambda kind: kind.rank))
"""Kinds that are listed across sessions, the most important first."""
MARKED_KINDS = {kind.mark.name or kind.name: kind for kind in EVENT_KINDS if kind.mark is not None}
"""Kinds that are marked on the timeline, by the name of the mark."""
ENTRY_KINDS = tuple(
    sorted((kind for kind in EVENT_KINDS if kind.entry_rank is not None), key=lambda kind: kind.entry_rank or 0)
)
"""Kinds that have entries of their own in a transcript, in the order in which a message shows them."""
_BY_STRUCT = {kind.struct_name: kind for kind in EVENT_KINDS}
_BY_WORD = {word: kind for kind in EVENT_KINDS for word in kind.words}


def find_kind(word: str) -> EventKind:
    """Return the kind with a name that a user wrote: its name, its plural, its field in the record, or a synonym."""
    kind = _named(word)
    if kind is None:
        raise UsageError(_unknown(word, EVENT_NAMES))
    return kind


def find_listed_kind(word: str) -> EventKind:
    """Like `find_kind`, but only among the kinds that are listed across sessions."""
    kind = _named(word)
    if kind is None or kind.listing is None:
        raise UsageError(_unknown(word, [kind.plural for kind in LISTED_KINDS]))
    return kind


def _named(word: str) -> EventKind | None:
    return _BY_WORD.get(word.strip().lower().replace("-", "_").replace(" ", "_"))


def _unknown(word: str, names: Iterable[str]) -> str:
    return f"Unknown event type {word!r}; choose from {', '.join(names)}"


def kind_of(event: m.Event) -> EventKind:
    """The kind of an event."""
    return _BY_STRUCT[type(event).__name__]


def iter_events(session: Session) -> Iterator[tuple[EventKind, m.Event]]:
    """All events of a session, kind by kind; its messages are not needed."""
    return ((kind, event) for kind in EVENT_KINDS for event in kind.of(session))


def count_events(session: Session) -> dict[str, int]:
    """Return the number of events of each kind in a session, by the kind's name."""
    return {kind.name: len(kind.of(session)) for kind in EVENT_KINDS}


def event_fields(empty: Any) -> list[tuple[str, Any] | tuple[str, Any, Any]]:
    """The fields of a record that hold events, with their types; `empty` is the default of optional ones."""
    found: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for kind in EVENT_KINDS:
        type = kind.recorded.group or list[kind.struct]  # type: ignore[name-defined]
        found.append((kind.field, type, empty) if kind.recorded.is_optional else (kind.field, type))
    return found


def no_events() -> dict[str, Any]:
    """Return the event fields of a record without events."""
    return {kind.field: kind.value([]) for kind in EVENT_KINDS}
