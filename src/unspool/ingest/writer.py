"""Prepares the messages of a session for the store: new ones are added, changed ones replaced."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from ..agents import AGENTS
from ..core import model as m
from ..core import typed_json
from ..core.assemble import SessionAssembler
from ..core.builder import SessionBuilder
from ..core.decisions import apply_decisions, main_session
from ..core.events import EventKind, Marked, count_events, iter_events
from ..core.recent import Recent
from ..core.session import Session
from ..core.tree import INHERITED
from ..store import Store
from ..store.blocks import BLOCK
from ..store.compression import pack
from ..store.damage import is_placeholder
from ..store.decision_log import decisions_if_readable
from ..store.events import NewEvent
from ..store.indexed_text import EncodedRow, TextRow, ToolNameOf, rows_of
from ..store.message_patches import MessagePatches
from ..store.rows import NOTHING, StoredSession
from ..store.sessions import SUMMARY_COLUMNS, session_values
from ..store.text_index import tools_by_field
from ..store.usage_rows import UsageRows, whole_seconds
from .change_diff import Comparison, StoredState
from .stream_sink import StreamSink, spans_of

Touched = Callable[[str, msgspec.Raw], Iterable[str]]
"""Returns the files that a tool call is about."""

_encode = msgspec.json.Encoder().encode
_MESSAGE = typed_json.decoder(m.Message)
_MESSAGES = typed_json.decoder(list[m.Message])


class Messages(NamedTuple):
    """Some messages of a session, prepared for the store."""

    first: int
    length: int
    data: bytes
    """The messages themselves, packed."""
    texts: Sequence[TextRow | EncodedRow]
    usage: UsageRows
    touches: list[tuple[int, str]]
    changed: list[m.Message]
    """Messages whose entries in the search index are outdated, as they were indexed."""

    @property
    def weight(self) -> int:
        """The approximate size in bytes."""
        return len(self.data) + sum(len(row[-1]) for row in self.texts)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the lists as one byte string: unpickling many small objects is much slower."""
        texts = [(*row[:-1], row[-1].encode() if isinstance(row[-1], str) else row[-1]) for row in self.texts]
        lists = _TO_BYTES.encode((texts, self.usage, self.touches))
        return _from_bytes, (self.first, self.length, self.data, lists, self.changed)

    def write(self, store: Store, id: int) -> None:
        """Write the messages; their usage is added to the sums later, for all messages of the session."""
        store.blocks.add(id, [(self.first, self.length, self.data)])
        store.texts.remove(id, self.changed)
        store.texts.add(id, self.texts)
        store.usage.insert(id, self.usage)
        store.texts.add_touched_files(id, self.touches)


_TO_BYTES = msgspec.msgpack.Encoder()
_LISTS = typed_json.msgpack_decoder(tuple[list[EncodedRow], UsageRows, list[tuple[int, str]]])


def _from_bytes(first: int, length: int, data: bytes, lists: bytes, changed: list[m.Message]) -> Messages:
    return Messages(first, length, data, *_LISTS.decode(lists), changed)


class Ending(NamedTuple):
    """The data of a session that is known after its last line."""

    values: dict[str, object]
    """The columns of the session."""
    usage: tuple[m.Usage, str | None, float | None]
    """The total usage, the last model, and the end of the session."""
    patches: MessagePatches
    before: MessagePatches
    """The patches when it was last read."""
    sealed: int
    removed: list[m.Message]
    """Stored messages that no longer exist."""
    events: list[NewEvent]
    marks: list[tuple[int, str]]
    compared: Comparison
    """The comparison with what was stored before."""
    is_without_decisions: bool = False
    """Whether the decisions about the session could not be read."""

    @property
    def weight(self) -> int:
        """The approximate size in bytes."""
        return sum(len(event[4]) for event in self.events)

    @property
    def messages(self) -> int:
        """Number of messages."""
        count = self.values["messages"]
        assert isinstance(count, int)
        return count

    @property
    def stored_state(self) -> StoredState:
        """The state of the session in the store after `write`."""
        counts = json.loads(str(self.values["counts"]))
        events = [(kind, message, data) for kind, message, _, _, data in self.events]
        columns = {name: self.values[name] for name in SUMMARY_COLUMNS}
        return StoredState(self.messages, columns, counts, events, self.patches)

    def write(self, store: Store, id: int, fingerprint: str, files: list[int]) -> None:
        """Write the data with the fingerprint of the session; `files` are the ids of its files."""
        store.texts.remove(id, self.removed)
        self._correct(store, id)
        store.events.replace(id, self.events)
        store.texts.set_marks(id, self.marks)
        store.texts.set_spans(id, self.patches.spans)
        store.sessions.update(id, self.values, fingerprint)
        store.usage.set_remainder(id, *self.usage)
        store.files.set_for_session(id, files)

    def _correct(self, store: Store, id: int) -> None:
        """Update the index and usage of sealed messages whose patches have changed."""
        patches, before = self.patches, self.before
        changed = {
            *_differing(patches.outcomes, before.outcomes), *_differing(patches.usages, before.usages),
            *_differing(patches.authors, before.authors), *_differing(patches.rewritten, before.rewritten),
        }  # fmt: skip
        for index in sorted(index for index in changed if index < self.sealed):
            self._correct_one(store, id, index)

    def _correct_one(self, store: Store, id: int, index: int) -> None:
        for message in store.messages.read(id, index, index + 1):
            if is_placeholder(message):
                continue
            tool_of = tools_in(message).get
            if self.patches.rewritten.get(index) != self.before.rewritten.get(index):
                store.texts.remove(id, [message])
                self.patches.apply(message)
                store.texts.add(id, counted(message, tool_of)[0])
            elif (author := self.patches.authors.get(index, message.author)) != message.author:
                store.texts.set_author(id, message, author)
            self.patches.apply(message)
            store.usage.remove(id, index)
            store.usage.add(id, counted(message, tool_of)[1])


class SessionWriter:
    """Prepares the messages of one session while it is read, and passes them to `give` in pieces."""

    def __init__(self, touched: Touched, give: Callable[[Messages], None]) -> None:
        self._touched = touched
        self._give = give
        self._known = 0
        self._tail: dict[int, m.Message] = {}
        self._tail_tools: dict[int, list[str | None]] = {}
        """The tool names of these messages in the search index."""
        self._before = MessagePatches()
        self._old: array[int] = array("q")
        """Hashes of the stored messages that are rewritten."""
        self._same = 0
        """Number of unchanged messages at the start."""
        self._differing: list[tuple[m.Message, m.Message]] = []
        """Messages that may have changed, before and after."""
        self._builder: SessionBuilder | None = None
        self._sink = StreamSink(self._take)
        self._tools: Recent[str, str] = Recent(1 << 12)
        """Tools of the last calls, by call id."""

    def continue_from(self, store: Store, stored: StoredSession) -> None:
        """Continue a stored session: sealed messages stay, the last ones may have changed."""
        self._known = stored.sealed
        self._same = stored.messages
        self._before = store.messages.patches(stored.id)
        self._tail = {message.index: message for message in store.messages.read(stored.id, stored.sealed)}
        self._tail_tools = store.texts.tools(stored.id, stored.sealed)

    def compare_with(self, store: Store, id: int) -> None:
        """Rewrite a stored session, and count the unchanged messages at its start."""
        self._old.extend(store.messages.hashes(id))

    def builder(self, agent: str, name: str, kind: m.Kind) -> SessionBuilder:
        """Return the builder for the reader."""
        self._sink = StreamSink(self._take, self._known)
        self._builder = SessionBuilder(agent, name, kind, self._sink)
        return self._builder

    @property
    def count(self) -> int:
        """Number of messages that were read."""
        return len(self._builder) if self._builder is not None else 0

    @property
    def sealed(self) -> int:
        """Number of messages that can no longer change in place."""
        return self._sink.sealed

    @property
    def is_wrong(self) -> bool:
        """Whether stored messages are wrong, because another file shows that more, or fewer, of them were copied."""
        return self._builder is not None and _inherited(self._builder, self._known) != self._before.inherited

    def finish(self) -> Ending:
        """Return the data that is only known after the last line."""
        builder, sink = self._builder, self._sink
        assert builder is not None
        assembler = SessionAssembler(builder)
        decisions = decisions_if_readable(builder.agent, main_session(builder.id))
        apply_decisions(assembler, decisions or [], AGENTS[builder.agent].describe)
        patches, sealed = sink.patches, sink.sealed
        patches.inherited = _inherited(builder, sealed)
        patches.spans = list(spans_of(assembler, len(builder)))
        head = assembler.header([])
        for block in sink.rest():
            self._take(block)
        sink.close()
        counts = {"messages": len(builder), **count_events(head)}
        return Ending(
            session_values(head, patches, counts, sealed),
            _usage_of(head),
            patches,
            self._before,
            sealed,
            list(self._tail.values()),
            [_event(kind, event) for kind, event in iter_events(head)],
            list(_marks(head, builder)),
            Comparison(min((self._same, *self._tail)), self.changed(), head.info.tip),
            is_without_decisions=decisions is None,
        )

    def changed(self) -> list[int]:
        """Return the indices of last messages that changed since they were written; each change only once."""
        found, self._differing = self._differing, []
        return [before.index for before, message in found if _is_other(before, self._completed(message))]

    def _completed(self, message: m.Message) -> m.Message:
        """Return a copy of a message with its patches applied."""
        copy = _MESSAGE.decode(_encode(message))
        self._sink.patches.apply(copy)
        return copy

    @property
    def has_news(self) -> bool:
        """Whether there are messages that are new or have changed since they were stored."""
        tail, last = self._tail, list(self._sink.held())
        return any(message.index not in tail or _is_other(tail[message.index], message) for message in last)

    def write_so_far(self, store: Store, id: int, waiting: list[Messages]) -> int:
        """Write the messages read so far, although more may follow; returns their number.

        `waiting` are the pieces passed to `give`. Data that is only known at the end has to be found by reading again.
        """
        before = self._known
        store.sessions.remove_tail(id, before)
        first = self._known = self._sink.sealed
        messages = list(self._sink.held())
        for start in range(0, len(messages), BLOCK):
            self._take(messages[start : start + BLOCK])
        for piece in waiting:
            piece.write(store, id)
        store.usage.add_to_sums(id, before)
        waiting.clear()
        # They may still change in place, so a copy of what was written is kept.
        self._tail = {message.index: message for message in _MESSAGES.decode(_encode(messages))}
        self._tail_tools = {message.index: self._tools_of(message) for message in messages}
        times = [message.timestamp.timestamp() for message in messages if message.timestamp is not None]
        store.sessions.update_progress(id, self.count, first, max(times, default=None))
        return self.count

    # --- messages ---

    def _take(self, messages: list[m.Message]) -> None:
        times, tail, tool_of = self._sink.times, self._tail, self._tool_of
        texts: list[TextRow] = []
        usage = UsageRows()
        piece = Messages(messages[0].index, len(messages), pack(_encode(messages)), texts, usage, [], [])
        if self._same < len(self._old):
            self._compare(messages)
        for message in messages:
            index = message.index
            at = int(times[index]) or NOTHING
            for block in message.blocks:
                if type(block) is m.ToolCall:
                    self._tools.put(block.id, block.name)
                    piece.touches.extend((index, path) for path in self._touched(block.name, block.raw_input))
            if tail and (before := tail.pop(index, None)) is not None:
                if not self._settle_tail(before, message, piece):
                    texts += rows_of(message, tool_of, at)
            else:
                texts += rows_of(message, tool_of, at)
            usage.add(message, tool_of, at)
        self._give(piece)

    def _compare(self, messages: list[m.Message]) -> None:
        """Count the unchanged messages at the start."""
        for message in messages:
            if message.index == self._same < len(self._old) and hash(_encode(message)) == self._old[self._same]:
                self._same += 1

    def _settle_tail(self, before: m.Message, message: m.Message, piece: Messages) -> bool:
        """Return whether the search index has a last message as it is now; if not, its old entries will be removed."""
        if _is_other(before, message):
            self._differing.append((before, message))
        if self._is_indexed(before, message):
            return True
        piece.changed.append(before)
        return False

    def _is_indexed(self, before: m.Message, message: m.Message) -> bool:
        """Whether a message is in the search index as it is now; the tool of a result may only be known later."""
        if _searchable(before) != _searchable(message):
            return False
        return self._tail_tools.get(message.index, []) == self._tools_of(message)

    def _tools_of(self, message: m.Message) -> list[str | None]:
        return tools_by_field(message, self._tool_of)

    def _tool_of(self, call_id: str) -> str | None:
        if (name := self._tools.get(call_id)) is not None:
            return name
        call = self._builder.calls.find(call_id) if self._builder is not None else None
        return call.name if call is not None else None


def _inherited(builder: SessionBuilder, count: int) -> int:
    """Return how many of the first messages belong to the session this one was forked from."""
    return sum(1 for flag in builder.columns.flags[:count] if flag & INHERITED)


def _usage_of(head: Session) -> tuple[m.Usage, str | None, float | None]:
    info = head.info
    return info.usage, info.models[-1] if info.models else None, _seconds(info.ended_at)


def tools_in(message: m.Message) -> dict[str, str]:
    """Return the tools of the calls in a message, by call id."""
    return {block.id: block.name for block in message.blocks if isinstance(block, m.ToolCall)}


def _differing(now: Mapping[int, object], before: Mapping[int, object]) -> Iterator[int]:
    return (key for key in now.keys() | before.keys() if now.get(key) != before.get(key))


def _searchable(message: m.Message) -> bytes:
    return _encode((message.author, message.model, message.timestamp, message.blocks))


def _is_other(before: m.Message, now: m.Message) -> bool:
    """Whether a message changed. Usage that moved to a later message of the response does not count."""
    if now.usage is not None and now.usage != before.usage:
        return True
    return (before.queued, before.inherited) != (now.queued, now.inherited) or _searchable(before) != _searchable(now)


def counted(message: m.Message, name_of: ToolNameOf) -> tuple[list[TextRow], UsageRows]:
    """Return the rows of one message for the search index and for the usage counts."""
    at = whole_seconds(message.timestamp)
    usage = UsageRows()
    usage.add(message, name_of, at)
    return rows_of(message, name_of, at), usage


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


# --- events ----------------------------------------------------------------------------------------------------------


def _event(kind: EventKind, event: Any) -> NewEvent:
    at = _seconds(getattr(event, "timestamp", None))
    return kind.name, kind.index_of(event), at, getattr(event, "tool_name", None), _encode(event)


def _marks(head: Session, builder: SessionBuilder) -> Iterator[tuple[int, str]]:
    """Iterate over the messages that `is:` finds, with their marks: where an event is recorded, and its calls."""
    for kind, event in iter_events(head):
        if isinstance(kind.search, Marked):
            for field in kind.search.fields:
                for index in _messages_of(builder, getattr(event, field)):
                    yield index, kind.search.word


def _messages_of(builder: SessionBuilder, value: int | str | list[str] | None) -> Iterator[int]:
    """Iterate over the messages that a field names: a message, or the messages of one or more calls."""
    if isinstance(value, int):
        yield value
        return
    for call_id in [value] if isinstance(value, str) else value or []:
        call = builder.calls.find(call_id) if call_id else None
        if call is not None:
            yield call.message
