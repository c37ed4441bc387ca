"""The tables, their columns, and the meaning of each column.

Columns are generated from a Struct of the record if a table contains one, and from the Structs below if it joins
several. `arrow_schema` returns them as Arrow schemas; `docs/schema/unspool-tables-1.json` is the published form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import inspect as types

from ..core import model as m
from ..core.errors import UsageError
from ..core.events import EVENT_KINDS
from ..core.lineage import LineageEdge
from .extra import load_package

if TYPE_CHECKING:
    import pyarrow as pa

TABLES_SCHEMA = "unspool-tables/1"
"""Name and version of the tables. It changes if queries for the old tables would be wrong for the new ones."""

ColumnType = Literal["string", "category", "json", "int", "float", "bool", "time", "date", "strings", "ints"]

BlockType = Literal[
    "text", "thinking", "tool_call", "tool_result", "image", "interruption", "compaction", "attachment", "unknown"
]

_SCALARS: dict[type[types.Type], ColumnType] = {
    types.StrType: "string",
    types.IntType: "int",
    types.FloatType: "float",
    types.BoolType: "bool",
    types.DateTimeType: "time",
    types.LiteralType: "category",
}
_LISTS: dict[type[types.Type], ColumnType] = {types.StrType: "strings", types.IntType: "ints"}
_CATEGORIES = frozenset(
    (
        *("model", "agent_type", "tip_rule", "project_path", "project_name", "git_branch", "evidence"),
        *("kind", "name", "media_type", "tool_name", "linked_by", "origin_evidence"),
    )
)
"""Columns with repeated strings, which are dictionary-encoded, as are those with a fixed set of values."""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    kind: ColumnType
    cls: type[Any]
    """The Struct that describes it."""
    field: str
    """The field of that Struct."""
    path: tuple[str, ...] = ()
    """The field names that lead from the Struct of the table to the value."""


class Key(msgspec.Struct):
    """The first columns of every table."""

    agent: str
    """The short name of the agent."""
    session: str
    """The id of the session. Agent and id together identify a session."""
    day: str
    """The UTC day on which the session started: the same in all rows of a session. Null if no time is recorded."""


class Location(msgspec.Struct):
    """The columns that locate the log line of a row. Null if a row is not about one line."""

    source_file: str | None
    """The path of the file."""
    source_line: int | None
    """Line number, from 1."""
    source_offset: int | None
    """Byte offset of the line. In a compressed log, an offset in the decompressed bytes."""
    source_length: int | None
    """Length of the line in bytes, without the newline."""


class SessionExtra(msgspec.Struct):
    """Columns that the table of sessions adds to the session info."""

    messages: int
    """The number of messages."""
    source_file: str | None
    """The log file, or the first one if there are several."""


class MessageExtra(msgspec.Struct):
    """Columns that the table of messages adds to a message."""

    blocks: int
    """The number of blocks."""


class BlockRow(msgspec.Struct):
    """A block of a message."""

    message_index: int
    """The message."""
    block_index: int
    """Its position in the message, from 0."""
    type: BlockType
    """The type of the block."""
    text: str | None
    """The text of a text or thinking block, a result, a summary or an attachment."""
    call_id: str | None
    """The id of a call, or of the call that a result belongs to."""
    name: str | None
    """The tool that is called, or the agent's own name for an attachment or an unknown block."""
    json: msgspec.Raw | None
    """The input of a call or an unknown block, as the exact JSON that was written; the hooks of an attachment; the
    other parts of a result, without the bytes of images."""
    outcome: m.Outcome | None
    """For a result: how the call ended."""
    exit_code: int | None
    """For a result: the exit code of the command."""
    path: str | None
    """The file of an attachment, the URL of an image, or the file to which a large output was saved."""
    media_type: str | None
    """The MIME type of an image."""
    data_length: int | None
    """The length of an image in base64. The tables do not contain the bytes; the source columns locate them."""
    encrypted: bool | None
    """For thinking: only the provider can read it."""
    sent: bool | None
    """For a result: it was sent to the model."""
    synthetic: bool | None
    """For a result: added by unspool."""
    during: m.During | None
    """For an interruption: what was running."""


class ToolCallRow(msgspec.Struct):
    """A tool call with its result."""

    message_index: int
    """The message that contains the call."""
    block_index: int
    """The position of the call in the message, from 0."""
    call_id: str
    """The id of the call."""
    tool_name: str
    """The name of the tool."""
    input: msgspec.Raw
    """The input, as the exact JSON that the model wrote."""
    command: str | None
    """The command that it runs, if any."""
    path: str | None
    """The file that it is about, if any."""
    timestamp: datetime | None
    """When the message with the call was written."""
    branch: int
    """The branch of that message; 0 is the active branch."""
    inherited: bool
    """The call belongs to the session that this one was forked from."""
    result_index: int | None
    """The message that contains the result; null if there is none."""
    result: str | None
    """The output as text. Null if there is no result, or if it already belongs to an earlier call of the same id."""
    outcome: m.Outcome
    """How the call ended."""
    exit_code: int | None
    """The exit code of a command."""
    duration_ms: int | None
    """Milliseconds from the message with the call to the one with the result, including the wait for approval."""
    approval: Literal["rejected", "changed"] | None
    """The recorded decision of a person, rule, hook or mode, if any: rejected, or allowed with a changed input."""
    rejected_by: m.RejectedBy | None
    """Who or what rejected it."""
    rejection_reason: str | None
    """The reason that was given."""
    unfinished: m.OrphanReason | None
    """For an unfinished call: why it has no result."""


class EventRow(msgspec.Struct):
    """An event of any kind."""

    kind: str
    """The kind, such as `rejection`. Each kind also has its own table."""
    index: int
    """Its position among the events of the same kind in this session, from 0."""
    message_index: int | None
    """The message at which it happened."""
    timestamp: datetime | None
    """When it happened or, if that is unknown, when that message was written."""
    event: msgspec.Raw
    """The event as JSON, as in the session record."""


class EventKey(msgspec.Struct):
    """Columns that the table of an event kind adds to the event."""

    index: int
    """Its position among the events of the same kind in this session, from 0."""


class EventInherited(msgspec.Struct):
    """Columns that an event table adds if a session can inherit such events from the session it was forked from."""

    inherited: bool
    """It happened in the session that this one was forked from."""


class UsageRow(msgspec.Struct):
    """The tokens of one request. A fork does not repeat those of the session it was forked from."""

    message_index: int | None
    """The last message of the response; null for tokens that belong to no message, such as those of a compaction."""
    timestamp: datetime | None
    """When that message was written; without a message, when the session ended."""
    model: str | None
    """The model. Without a message, the last model of the session."""


class UsageCost(msgspec.Struct):
    """Columns that the table of usage adds to the tokens."""

    cost_usd: float | None
    """The cost of the tokens at API list prices, in US dollars; null if no price is known."""


class ContextRow(msgspec.Struct):
    """An interval in which a message was in the model's context.

    A message has several intervals if it left the context and returned, for example on another branch.
    """

    message_index: int
    """The message."""
    from_index: int
    """The first response whose request had the message in context: the first message of that response."""
    to_index: int
    """The last response before which it never left the context, in the order of the log."""
    requests: int
    """The number of responses from the first to the last."""


class FileRow(msgspec.Struct):
    """A file that a tool call is about."""

    message_index: int
    """The message that contains the call."""
    block_index: int
    """The position of the call in the message, from 0."""
    call_id: str
    """The id of the call."""
    tool_name: str
    """The name of the tool."""
    path: str
    """The path of the file, as in the call."""


class Table(NamedTuple):
    """A table."""

    name: str
    about: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]


def columns_of(cls: type[msgspec.Struct], skip: Iterable[str] = (), path: tuple[str, ...] = ()) -> Iterator[Column]:
    """Yield the columns for the fields of a Struct. A nested Struct becomes several columns, a list of Structs JSON."""
    info = types.type_info(cls)
    assert isinstance(info, types.StructType)
    for field in info.fields:
        if field.name in skip:
            continue
        kinds = field.type.types if isinstance(field.type, types.UnionType) else (field.type,)
        kind, *others = [kind for kind in kinds if not isinstance(kind, types.NoneType)]
        if isinstance(kind, types.StructType) and kind.cls is m.Source:
            continue
        if isinstance(kind, types.StructType) and not others and kind.cls is not m.Action:
            yield from columns_of(kind.cls, path=(*path, field.name))
        else:
            name = "_".join((*path, field.name))
            yield Column(name, _column_type(name, kind), cls, field.name, (*path, field.name))


def _column_type(name: str, kind: types.Type) -> ColumnType:
    if isinstance(kind, types.ListType):
        return _LISTS.get(type(kind.item_type), "json")
    return "category" if name in _CATEGORIES else _SCALARS.get(type(kind), "json")


_KEY = (
    Column("agent", "category", Key, "agent"),
    Column("session", "category", Key, "session"),
    Column("day", "date", Key, "day"),
)
_KEY_NAMES = frozenset(column.name for column in _KEY)
_LOCATION = (
    Column("source_file", "category", Location, "source_file"),
    *(Column(name, "int", Location, name) for name in ("source_line", "source_offset", "source_length")),
)
USAGE_FIELDS = m.Usage.__struct_fields__


def _table(name: str, about: str, *parts: Iterable[Column], located: bool = True) -> Table:
    return Table(name, about, (*_KEY, *(column for part in parts for column in part), *(_LOCATION if located else ())))


def _event_tables() -> Iterator[Table]:
    for kind in EVENT_KINDS:
        inherited = columns_of(EventInherited) if kind.recorded.group_name else ()
        about = f"{kind.noun[0].upper()}{kind.noun[1:]}, one per row."
        # A sub-agent event has a field `session`, which must not replace the key column of the same name.
        columns = (
            column._replace(name=f"{kind.name}_{column.name}") if column.name in _KEY_NAMES else column
            for column in columns_of(kind.struct)
        )
        yield _table(kind.plural, about, columns_of(EventKey), columns, inherited)


EVENT_TABLES = {kind.name: kind.plural for kind in EVENT_KINDS}
"""The table of each kind of event."""
TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        _table(
            "sessions",
            "One session or sub-agent per row.",
            columns_of(m.SessionInfo, ("id", "agent")),
            columns_of(SessionExtra),
            located=False,
        ),
        _table(
            "messages", "One message per row.", columns_of(m.Message, ("blocks", "usage")), columns_of(MessageExtra)
        ),
        _table("blocks", "The content of messages: one text, thinking, call or result per row.", columns_of(BlockRow)),
        _table("tool_calls", "One tool call per row, with its result.", columns_of(ToolCallRow)),
        _table("events", "Events of all kinds.", columns_of(EventRow)),
        *_event_tables(),
        _table(
            "usage",
            "The tokens of each request, counted once.",
            columns_of(UsageRow),
            columns_of(m.Usage),
            columns_of(UsageCost),
        ),
        _table("contexts", "When a message was in the model's context.", columns_of(ContextRow)),
        _table("files_touched", "The files that tool calls are about.", columns_of(FileRow)),
        _table("lineage", "Which session follows from which.", columns_of(LineageEdge, ("agent",)), located=False),
    )
}
"""All tables, by name."""


def find_table(name: str) -> Table:
    """Return a table by name; raises UsageError with the valid names."""
    if name not in TABLES:
        raise UsageError(f"unknown table {name!r}; choose from {', '.join(TABLES)}")
    return TABLES[name]


@cache
def arrow_type(kind: ColumnType, *, plain: bool = False) -> pa.DataType:
    """Return the Arrow type of a column; with `plain`, without dictionaries, for readers that do not support them."""
    arrow = load_package("pyarrow")
    made: dict[str, Any] = {
        "string": arrow.string, "json": arrow.string, "int": arrow.int64, "float": arrow.float64, "bool": arrow.bool_,
        "date": arrow.date32, "time": lambda: arrow.timestamp("us", "UTC"),
        "strings": lambda: arrow.list_(arrow.string()), "ints": lambda: arrow.list_(arrow.int64()),
        "category": arrow.string if plain else lambda: arrow.dictionary(arrow.int32(), arrow.string()),
    }  # fmt: skip
    found: pa.DataType = made[kind]()
    return found


@cache
def arrow_schema(name: str, *, plain: bool = False) -> pa.Schema:
    """Return the Arrow schema of a table."""
    arrow = load_package("pyarrow")
    fields = [arrow.field(column.name, arrow_type(column.kind, plain=plain)) for column in find_table(name).columns]
    schema: pa.Schema = arrow.schema(fields, metadata={"unspool.schema": TABLES_SCHEMA, "unspool.table": name})
    return schema
