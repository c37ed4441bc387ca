"""One session → rows of all tables."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from ..agents import AGENTS
from ..core import model as m
from ..core.convert import to_builtins
from ..core.events import EVENT_KINDS, EventKind
from ..core.lineage import LineageEdge, edges_of
from ..core.tree import Tree
from ..library import SessionReading
from .batches import Row
from .call_rows import CallRows
from .contexts import find_intervals
from .schema import EVENT_TABLES, columns_of
from .usage_cost import CostOf

_MESSAGE_NAMES = [column.name for column in columns_of(m.Message, ("blocks", "usage"))]
_MESSAGE = attrgetter(*_MESSAGE_NAMES)
_SESSION_PATHS = [column.path for column in columns_of(m.SessionInfo, ("id", "agent"))]
_SESSION_JSON = [column.kind == "json" for column in columns_of(m.SessionInfo, ("id", "agent"))]
_EDGE = attrgetter(*(column.name for column in columns_of(LineageEdge, ("agent",))))
_USAGE = attrgetter(*m.Usage.__struct_fields__)
_NOWHERE = (None, None, None, None)
Key = tuple[str, str, date | None]
Location = tuple[str | None, int | None, int | None, int | None]


def to_json_text(value: Any) -> bytes | str:
    """A value as JSON. Half a surrogate pair, which UTF-8 cannot express, is written as an escape."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(to_builtins(value), separators=(",", ":"))


# --- blocks: text, call_id, name, json, outcome, exit_code, path, media_type, data_length, encrypted, sent, synthetic,
# during -------------------------------------------------------------------------------------------------------------

_REST = (None,) * 4


def _text(block: m.Text) -> Row:
    return (block.text, *_NOWHERE, *_NOWHERE, *_REST)


def _thinking(block: m.Thinking) -> Row:
    return (block.text, *_NOWHERE, *_NOWHERE, block.encrypted, None, None, None)


def _call(block: m.ToolCall) -> Row:
    return (None, block.id, block.name, bytes(block.raw_input), None, *_NOWHERE, *_REST)


def _result(block: m.ToolResult) -> Row:
    saved = block.saved
    more = to_json_text([_without_data(part) for part in block.parts]) if block.parts else None
    return (
        block.content, block.call_id, None, more, block.outcome, block.exit_code, saved.path if saved else None, None,
        None, None, block.sent, block.synthetic, None,
    )  # fmt: skip


def _without_data(part: m.Image | m.Unknown) -> object:
    if isinstance(part, m.Unknown):
        return part
    return {"type": "image", "media_type": part.media_type, "url": part.url, "data_length": len(part.data or "")}


def _image(block: m.Image) -> Row:
    length = None if block.data is None else len(block.data)
    return (None, None, None, None, None, None, block.url, block.media_type, length, *_REST)


def _interruption(block: m.InterruptionMark) -> Row:
    return (None, *_NOWHERE, *_NOWHERE, None, None, None, block.during)


def _compaction(block: m.CompactionMark) -> Row:
    return (block.summary, *_NOWHERE, *_NOWHERE, *_REST)


def _attachment(block: m.Attachment) -> Row:
    hooks = to_json_text(block.hooks) if block.hooks else None
    return (block.text, None, block.kind, hooks, None, None, block.path, None, None, *_REST)


def _unknown(block: m.Unknown) -> Row:
    return (None, None, block.kind, bytes(block.raw), None, *_NOWHERE, *_REST)


_BLOCKS: dict[type, tuple[str, Callable[[Any], Row]]] = {
    m.Text: ("text", _text), m.Thinking: ("thinking", _thinking), m.ToolCall: ("tool_call", _call),
    m.ToolResult: ("tool_result", _result), m.Image: ("image", _image),
    m.InterruptionMark: ("interruption", _interruption), m.CompactionMark: ("compaction", _compaction),
    m.Attachment: ("attachment", _attachment), m.Unknown: ("unknown", _unknown),
}  # fmt: skip


# --- sessions --------------------------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    """What is kept of each message until the end of its session."""

    locations: list[Location]
    replies: array[int]
    times: dict[int, datetime]
    """When the messages with events were written."""


class SessionRows:
    """Adds the rows of sessions to lists, one for each wanted table."""

    def __init__(self, tables: Iterable[str], cost_of: CostOf) -> None:
        self.rows: dict[str, list[Row]] = {name: [] for name in tables}
        self._cost_of = cost_of
        self._wants_calls = bool({"tool_calls", "files_touched"} & self.rows.keys())

    def _of(self, table: str) -> Callable[[Row], None] | None:
        rows = self.rows.get(table)
        return None if rows is None else rows.append

    def add(self, reading: SessionReading) -> Iterator[int]:
        """Add a session; yields the length of each message in the log, so that the caller can take rows in between."""
        head = reading.head
        key = key_of(head.info)
        paths = [file.path for file in head.info.files]
        seen = _Seen([], array("i"), {})
        calls = CallRows(key, head, AGENTS.get(head.agent), self.rows) if self._wants_calls else None
        wanted = _event_messages(head)
        add_message, add_block, add_usage = self._of("messages"), self._of("blocks"), self._of("usage")
        used = [0] * len(m.Usage.__struct_fields__)
        for message in reading.messages:
            index, source, blocks = message.index, message.source, message.blocks
            location = (_path(paths, source.file), source.line, source.offset, source.length)
            seen.locations.append(location)
            seen.replies.append(-1 if message.reply is None else message.reply)
            if index in wanted and message.timestamp is not None:
                seen.times[index] = message.timestamp
            if add_message is not None:
                add_message((*key, *_MESSAGE(message), len(blocks), *location))
            if add_block is not None:
                for position, block in enumerate(blocks):
                    kind, row_of = _BLOCKS[type(block)]
                    add_block((*key, index, position, kind, *row_of(block), *location))
            if calls is not None:
                calls.add(message, location)
            if add_usage is not None and message.usage is not None and not message.inherited:
                values = _USAGE(message.usage)
                cost = self._cost_of(message.model, message.timestamp, message.usage)
                add_usage((*key, index, message.timestamp, message.model, *values, cost, *location))
                used = [total + (count or 0) for total, count in zip(used, values, strict=True)]
            yield source.length
        if calls is not None:
            calls.finish()
        self._add_rest(key, reading, paths, seen, used)

    def _add_rest(self, key: Key, reading: SessionReading, paths: list[str], seen: _Seen, used: list[int]) -> None:
        """What is only known after the last message."""
        head = reading.head
        if (add := self._of("sessions")) is not None:
            info = head.info
            add((*key, *_session_values(info), len(seen.replies), paths[0] if paths else None))
        if (add := self._of("usage")) is not None and (row := self._remainder(key, head.info, used)) is not None:
            add(row)
        if (add := self._of("lineage")) is not None:
            for edge in edges_of(head):
                add((*key, *_EDGE(edge)))

        def locate(index: int | None) -> Location:
            return seen.locations[index] if index is not None and 0 <= index < len(seen.locations) else _NOWHERE

        self._add_events(key, head, paths, seen.times, locate)
        if (add := self._of("contexts")) is not None:
            tree = reading.contexts.tree
            for interval in find_intervals(reading.contexts, tree, _requests(tree, seen.replies)):
                add((*key, *interval, *seen.locations[interval.message]))

    def _remainder(self, key: Key, info: m.SessionInfo, used: list[int]) -> Row | None:
        """The tokens of a session that belong to none of its messages."""
        counts = zip(m.Usage.__struct_fields__, _USAGE(info.usage), used, strict=True)
        rest = {name: None if total is None else total - count for name, total, count in counts}
        if not any(rest.values()):
            return None
        usage, model = m.Usage(**rest), info.models[-1] if info.models else None
        return (*key, None, info.ended_at, model, *_USAGE(usage), self._cost_of(model, info.ended_at, usage), *_NOWHERE)

    def _add_events(
        self, key: Key, head: Any, paths: list[str], times: dict[int, datetime],
        locate: Callable[[int | None], Location],
    ) -> None:  # fmt: skip
        add_any = self._of("events")
        for kind in EVENT_KINDS:
            add = self._of(EVENT_TABLES[kind.name])
            if add is None and add_any is None:
                continue
            own = kind.of(head)
            for index, event in enumerate((*own, *kind.inherited(head))):
                at = kind.index_of(event)
                source = getattr(event, "source", None)
                location = locate(at) if source is None else _location(paths, source)
                is_inherited = (index >= len(own),) if kind.recorded.group_name else ()
                if add is not None:
                    add((*key, index, *_event_values(kind, event), *is_inherited, *location))
                if add_any is not None and index < len(own):
                    time = getattr(event, "timestamp", None) or times.get(-1 if at is None else at)
                    add_any((*key, kind.name, index, at, time, to_json_text(event), *location))

    def add_problem(self, key: Key, reason: str, detail: str, location: Location = _NOWHERE) -> None:
        """Report what is not in the tables, or not as it was written."""
        if (add := self._of(EVENT_TABLES["problem"])) is not None:
            add((*key, None, reason, detail, None, None, *location))


def key_of(info: m.SessionInfo) -> Key:
    """The first columns of every row of a session."""
    return info.agent, info.id, None if info.started_at is None else info.started_at.date()


def _path(paths: list[str], file: int) -> str | None:
    return paths[file] if 0 <= file < len(paths) else None


def _location(paths: list[str], source: m.Source) -> Location:
    return _path(paths, source.file), source.line, source.offset, source.length


def _event_messages(head: Any) -> frozenset[int]:
    """The messages whose time is the time of an event."""
    found = (kind.index_of(event) for kind in EVENT_KINDS for event in kind.of(head))
    return frozenset(index for index in found if index is not None)


def _session_values(info: m.SessionInfo) -> Iterator[Any]:
    for path, is_json in zip(_SESSION_PATHS, _SESSION_JSON, strict=True):
        value: Any = info
        for name in path:
            value = None if value is None else getattr(value, name)
        yield to_json_text(value) if is_json else value


_EVENT_COLUMNS = {kind.name: [(c.field, c.kind == "json") for c in columns_of(kind.struct)] for kind in EVENT_KINDS}


def _event_values(kind: EventKind, event: Any) -> Iterator[Any]:
    for name, is_json in _EVENT_COLUMNS[kind.name]:
        value = getattr(event, name)
        if is_json:
            value = None if value is None or value is msgspec.UNSET else to_json_text(value)
        yield value


def _requests(tree: Tree, replies: array[int]) -> list[int]:
    """The message with which each response begins, in order; see `Session.context_at`."""
    parents = tree.parents
    found = set()
    for first in {reply for reply in replies if reply >= 0}:
        while (above := parents[first]) >= 0 and replies[above] == replies[first]:
            first = above
        found.add(first)
    return sorted(found)
