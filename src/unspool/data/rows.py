"""Makes the rows of all tables from a session."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
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
from .batches import PendingRows, Row
from .call_rows import CallRows
from .contexts import find_intervals
from .schema import EVENT_TABLES, Table, columns_of
from .source_locations import Key, SourceLocations
from .usage_cost import CostOf

_MESSAGE_VALUES = [attrgetter(column.name) for column in columns_of(m.Message, ("blocks", "usage"))]
_SESSION_PATHS = [column.path for column in columns_of(m.SessionInfo, ("id", "agent"))]
_SESSION_JSON = [column.kind == "json" for column in columns_of(m.SessionInfo, ("id", "agent"))]
_EDGE = attrgetter(*(column.name for column in columns_of(LineageEdge, ("agent",))))
_USAGE = attrgetter(*m.Usage.__struct_fields__)


def to_json_text(value: Any) -> bytes | str:
    """Encode a value as JSON. A lone surrogate, which UTF-8 cannot represent, is written as an escape."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(to_builtins(value), separators=(",", ":"))


# --- blocks: message, position, type; text, call_id, name, json, outcome, exit_code, path, media_type, data_length,
# encrypted, sent, synthetic, during; location -----------------------------------------------------------------------
# Each function builds its tuple directly, without unpacking, for speed: these are the most frequent rows.


def _text(block: m.Text, index: int, position: int, location: int) -> Row:
    return (
        index, position, "text",
        block.text, None, None, None, None, None, None, None, None, None, None, None, None, location,
    )  # fmt: skip


def _thinking(block: m.Thinking, index: int, position: int, location: int) -> Row:
    return (
        index, position, "thinking",
        block.text, None, None, None, None, None, None, None, None, block.encrypted, None, None, None, location,
    )  # fmt: skip


def _call(block: m.ToolCall, index: int, position: int, location: int) -> Row:
    return (
        index, position, "tool_call", None, block.id, block.name,
        bytes(block.raw_input), None, None, None, None, None, None, None, None, None, location,
    )  # fmt: skip


def _result(block: m.ToolResult, index: int, position: int, location: int) -> Row:
    saved = block.saved
    more = to_json_text([_without_data(part) for part in block.parts]) if block.parts else None
    return (
        index, position, "tool_result",
        block.content, block.call_id, None, more, block.outcome, block.exit_code, saved.path if saved else None, None,
        None, None, block.sent, block.synthetic, None, location,
    )  # fmt: skip


def _without_data(part: m.Image | m.Unknown) -> object:
    if isinstance(part, m.Unknown):
        return part
    return {"type": "image", "media_type": part.media_type, "url": part.url, "data_length": len(part.data or "")}


def _image(block: m.Image, index: int, position: int, location: int) -> Row:
    length = None if block.data is None else len(block.data)
    return (
        index, position, "image",
        None, None, None, None, None, None, block.url, block.media_type, length, None, None, None, None, location,
    )  # fmt: skip


def _interruption(block: m.InterruptionMark, index: int, position: int, location: int) -> Row:
    return (
        index, position, "interruption",
        None, None, None, None, None, None, None, None, None, None, None, None, block.during, location,
    )  # fmt: skip


def _compaction(block: m.CompactionMark, index: int, position: int, location: int) -> Row:
    return (
        index, position, "compaction",
        block.summary, None, None, None, None, None, None, None, None, None, None, None, None, location,
    )  # fmt: skip


def _attachment(block: m.Attachment, index: int, position: int, location: int) -> Row:
    hooks = to_json_text(block.hooks) if block.hooks else None
    return (
        index, position, "attachment",
        block.text, None, block.kind, hooks, None, None, block.path, None, None, None, None, None, None, location,
    )  # fmt: skip


def _unknown(block: m.Unknown, index: int, position: int, location: int) -> Row:
    return (
        index, position, "unknown",
        None, None, block.kind, bytes(block.raw), None, None, None, None, None, None, None, None, None, location,
    )  # fmt: skip


_BLOCK_ROWS: dict[type, Callable[[Any, int, int, int], Row]] = {
    m.Text: _text, m.Thinking: _thinking, m.ToolCall: _call, m.ToolResult: _result, m.Image: _image,
    m.InterruptionMark: _interruption, m.CompactionMark: _compaction, m.Attachment: _attachment, m.Unknown: _unknown,
}  # fmt: skip


# --- sessions --------------------------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    """Data about messages that is needed at the end of their session."""

    replies: array[int]
    times: dict[int, datetime]
    """When the messages with events were written."""
    used: list[int]
    """The sum of each token count over all messages."""


class SessionRows:
    """Makes the rows of sessions for the requested tables."""

    def __init__(self, tables: Iterable[Table], cost_of: CostOf) -> None:
        self.pending = {table.name: PendingRows(table) for table in tables}
        self.locations = SourceLocations()
        self._cost_of = cost_of
        self._wants_calls = bool({"tool_calls", "files_touched"} & self.pending.keys())

    def _of(self, table: str) -> Callable[[Row], None] | None:
        pending = self.pending.get(table)
        return None if pending is None else pending.rows.append

    def add(self, reading: SessionReading, pieces: Iterable[list[m.Message]]) -> Iterator[None]:
        """Add a session whose messages come in pieces. Yields after each one, so that the caller can take the rows."""
        head = reading.head
        self.locations.start(key_of(head.info), [file.path for file in head.info.files])
        seen = _Seen(array("i"), {}, [0] * len(m.Usage.__struct_fields__))
        calls = None
        if self._wants_calls:
            rows = {name: pending.rows for name, pending in self.pending.items()}
            calls = CallRows(self.locations, head, AGENTS.get(head.agent), rows)
        wanted = _event_messages(head)
        for messages in pieces:
            numbers = self.locations.add_messages(message.source for message in messages)
            seen.replies.extend([-1 if message.reply is None else message.reply for message in messages])
            for message in messages:
                if message.index in wanted and message.timestamp is not None:
                    seen.times[message.index] = message.timestamp
            if (pending := self.pending.get("messages")) is not None:
                lengths = [len(message.blocks) for message in messages]
                pending.extend((*(map(value, messages) for value in _MESSAGE_VALUES), lengths, numbers))
            self._add_blocks(messages, numbers)
            if calls is not None:
                calls.add(messages, numbers)
            self._add_usage(messages, numbers, seen.used)
            yield
        if calls is not None:
            calls.finish()
        self._add_rest(reading, seen)

    def _add_blocks(self, messages: Iterable[m.Message], numbers: Iterable[int]) -> None:
        if (add := self._of("blocks")) is None:
            return
        for message, location in zip(messages, numbers, strict=True):
            index = message.index
            for position, block in enumerate(message.blocks):
                add(_BLOCK_ROWS[type(block)](block, index, position, location))

    def _add_usage(self, messages: Iterable[m.Message], numbers: Iterable[int], used: list[int]) -> None:
        if (add := self._of("usage")) is None:
            return
        found = []
        for message, location in zip(messages, numbers, strict=True):
            usage = message.usage
            if usage is not None and not message.inherited:
                values = _USAGE(usage)
                found.append(values)
                cost = self._cost_of(message.model, message.timestamp, usage)
                add((message.index, message.timestamp, message.model, *values, cost, location))
        for field, counts in enumerate(zip(*found, strict=True)):
            used[field] += sum(filter(None, counts))

    def _add_rest(self, reading: SessionReading, seen: _Seen) -> None:
        """Add the rows that are only known after the last message."""
        head = reading.head
        info = head.info
        location = self.locations.of_message(None)
        if (add := self._of("sessions")) is not None:
            add((*_session_values(info), len(seen.replies), info.files[0].path if info.files else None, location))
        if (add := self._of("usage")) is not None and (row := self._remainder(info, seen.used)) is not None:
            add((*row, location))
        if (add := self._of("lineage")) is not None:
            for edge in edges_of(head):
                add((*_EDGE(edge), location))
        self._add_events(head, seen.times)
        if (pending := self.pending.get("contexts")) is not None:
            tree = reading.contexts.tree
            intervals = list(find_intervals(reading.contexts, tree, _requests(tree, seen.replies)))
            if intervals:
                messages, *others = zip(*intervals, strict=True)
                pending.extend((messages, *others, self.locations.of_messages(messages)))

    def _remainder(self, info: m.SessionInfo, used: list[int]) -> Row | None:
        """Return a usage row for the tokens of a session that belong to none of its messages, if there are any."""
        counts = zip(m.Usage.__struct_fields__, _USAGE(info.usage), used, strict=True)
        rest = {name: None if total is None else total - count for name, total, count in counts}
        if not any(rest.values()):
            return None
        usage, model = m.Usage(**rest), info.models[-1] if info.models else None
        return (None, info.ended_at, model, *_USAGE(usage), self._cost_of(model, info.ended_at, usage))

    def _add_events(self, head: Any, times: dict[int, datetime]) -> None:
        add_any = self._of("events")
        for kind in EVENT_KINDS:
            add = self._of(EVENT_TABLES[kind.name])
            if add is None and add_any is None:
                continue
            own = kind.of(head)
            for index, event in enumerate((*own, *kind.inherited(head))):
                at = kind.index_of(event)
                source = getattr(event, "source", None)
                location = self.locations.of_message(at) if source is None else self.locations.of_line(source)
                is_inherited = (index >= len(own),) if kind.recorded.group_name else ()
                if add is not None:
                    add((index, *_event_values(kind, event), *is_inherited, location))
                if add_any is not None and index < len(own):
                    time = getattr(event, "timestamp", None) or times.get(-1 if at is None else at)
                    add_any((kind.name, index, at, time, to_json_text(event), location))

    def add_problem(self, location: int, reason: str, detail: str) -> None:
        """Add a problem: data that is missing from the tables, or was changed to fit."""
        if (add := self._of(EVENT_TABLES["problem"])) is not None:
            add((None, reason, detail, None, None, location))


def key_of(info: m.SessionInfo) -> Key:
    """Return the first columns of every row of a session."""
    return info.agent, info.id, None if info.started_at is None else info.started_at.date()


def _event_messages(head: Any) -> frozenset[int]:
    """Return the indices of messages at which events happened."""
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
    """Return the first message of each response, in order; see `Session.context_at`."""
    parents = tree.parents
    found = set()
    for first in {reply for reply in replies if reply >= 0}:
        while (above := parents[first]) >= 0 and replies[above] == replies[first]:
            first = above
        found.add(first)
    return sorted(found)
