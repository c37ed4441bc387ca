"""Writes what is read of a session into a store: new messages are added, changed ones replaced, the rest left alone."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from ..core import model as m
from ..core.builder import Recent, SessionBuilder
from ..core.decisions import apply_decisions
from ..core.events import EventKind, Marked, count_events, iter_events
from ..core.session import Session
from ..store import Store
from ..store.compression import pack
from ..store.decision_log import recorded_decisions
from ..store.events import NewEvent
from ..store.indexed_text import TextRow, ToolNameOf, rows_of, texts_of
from ..store.message_patches import MessagePatches
from ..store.messages import BLOCK
from ..store.rows import NOTHING, StoredSession
from ..store.sessions import SUMMARY_COLUMNS, session_values
from ..store.usage_rows import UsageRows, whole_seconds
from .change_diff import Compared, Held
from .streaming_builder import StreamingBuilder, conclude

Touched = Callable[[str, msgspec.Raw], Iterable[str]]
"""The files that a call of some tool is about."""

_encode = msgspec.json.Encoder().encode
_MESSAGE = msgspec.json.Decoder(m.Message)
_MESSAGES = msgspec.json.Decoder(list[m.Message])


class Messages(NamedTuple):
    """Some messages of a session, made ready for the store."""

    first: int
    length: int
    data: bytes
    """The messages themselves, packed."""
    texts: list[TextRow]
    usage: UsageRows
    touches: list[tuple[int, str]]
    changed: list[m.Message]
    """What stands in the index of them, where it is different now."""

    @property
    def weight(self) -> int:
        """About how many bytes it holds."""
        return len(self.data) + sum(len(row[-1]) for row in self.texts)

    def __reduce__(self) -> tuple[object, ...]:
        """Many small things: between processes they go as one piece of bytes, which is far quicker to take apart."""
        lists = _TO_BYTES.encode((self.texts, self.usage, self.touches))
        return _from_bytes, (self.first, self.length, self.data, lists, self.changed)

    def write(self, store: Store, id: int) -> None:
        """Put them in."""
        store.messages.add_block(id, self.first, self.length, self.data)
        store.texts.remove(id, self.changed)
        store.texts.add(id, self.texts)
        store.usage.add(id, self.usage)
        store.texts.add_touched_files(id, self.touches)


_TO_BYTES = msgspec.msgpack.Encoder()
_LISTS = msgspec.msgpack.Decoder(tuple[list[TextRow], UsageRows, list[tuple[int, str]]])


def _from_bytes(first: int, length: int, data: bytes, lists: bytes, changed: list[m.Message]) -> Messages:
    return Messages(first, length, data, *_LISTS.decode(lists), changed)


class Ending(NamedTuple):
    """What is known of a session when it has been read to its end."""

    values: dict[str, object]
    """Of the session's own row."""
    usage: tuple[m.Usage, str | None, float | None]
    """Of all of it, with the last model and when it ended."""
    patches: MessagePatches
    before: MessagePatches
    """What was known when it was last read."""
    sealed: int
    left: list[m.Message]
    """Messages that are not there any more."""
    events: list[NewEvent]
    places: list[tuple[int, str]]
    compared: Compared
    """With what was there before."""

    @property
    def weight(self) -> int:
        """About how many bytes it holds."""
        return sum(len(event[4]) for event in self.events)

    @property
    def messages(self) -> int:
        """How many there are."""
        count = self.values["messages"]
        assert isinstance(count, int)
        return count

    @property
    def held(self) -> Held:
        """What the store holds when it is written."""
        counts = json.loads(str(self.values["counts"]))
        events = [(kind, message, data) for kind, message, _, _, data in self.events]
        return Held(self.messages, {name: self.values[name] for name in SUMMARY_COLUMNS}, counts, events, self.patches)

    def write(self, store: Store, id: int, around: str, files: list[int]) -> None:
        """Put it in."""
        store.texts.remove(id, self.left)
        self._correct(store, id)
        store.events.replace(id, self.events)
        store.texts.set_marks(id, self.places)
        store.texts.set_spans(id, self.patches.spans)
        store.sessions.update(id, self.values, around)
        store.usage.set_remainder(id, *self.usage)
        store.files.set_for_session(id, files)

    def _correct(self, store: Store, id: int) -> None:
        """What was learnt of messages that had left already."""
        patches, before = self.patches, self.before
        for index in _differing(patches.authors, before.authors):
            if index in patches.authors:
                store.texts.set_author(id, index, patches.authors[index])
        changed = {
            *_differing(patches.outcomes, before.outcomes), *_differing(patches.usages, before.usages),
            *_differing(patches.authors, before.authors), *_differing(patches.rewritten, before.rewritten),
        }  # fmt: skip
        for index in sorted(index for index in changed if index < self.sealed):
            self._correct_one(store, id, index)

    def _correct_one(self, store: Store, id: int, index: int) -> None:
        for message in store.messages.read(id, index, index + 1):
            tool_of = tools_in(message).get
            if self.patches.rewritten.get(index) != self.before.rewritten.get(index):
                store.texts.remove(id, [message])
                self.patches.apply(message)
                store.texts.add(id, counted(message, tool_of)[0])
            self.patches.apply(message)
            store.usage.remove(id, index)
            store.usage.add(id, counted(message, tool_of)[1])


class SessionWriter:
    """Makes ready what is read of one session; it goes to the store, or waits, as `give` decides."""

    def __init__(self, touched: Touched, give: Callable[[Messages], None]) -> None:
        self._touched = touched
        self._give = give
        self._known = 0
        self._tail: dict[int, m.Message] = {}
        self._tail_tools: dict[int, list[str | None]] = {}
        """The tools that the texts of those messages have in the index."""
        self._before = MessagePatches()
        self._old: array[int] = array("q")
        """Digests of the messages that are written anew."""
        self._same = 0
        """How many of the first messages are the same as they were."""
        self._differing: list[tuple[m.Message, m.Message]] = []
        """Messages that seem to have changed, before and after."""
        self._recorder: StreamingBuilder | None = None
        self._tools: Recent[str, str] = Recent(1 << 12)
        """Tools of the last calls, by the call."""

    def go_on_from(self, store: Store, stored: StoredSession) -> None:
        """Know what is there: what is settled stays, the last messages may have changed."""
        self._known = stored.sealed
        self._same = stored.messages
        self._before = store.messages.patches(stored.id)
        self._tail = {message.index: message for message in store.messages.read(stored.id, stored.sealed)}
        self._tail_tools = store.texts.tools(stored.id, stored.sealed)

    def compare_with(self, store: Store, id: int) -> None:
        """All is written anew, but how far it is what was there is found out."""
        self._old.extend(store.messages.hashes(id))

    def draft(self, agent: str, name: str, kind: m.Kind) -> StreamingBuilder:
        """What the reader fills."""
        self._recorder = StreamingBuilder(agent, name, kind, self._take, self._known)
        return self._recorder

    @property
    def is_wrong(self) -> bool:
        """What was settled is not so: another file has shown that more, or fewer, of it was copied."""
        recorder = self._recorder
        return recorder is not None and recorder.inherited(self._known) != self._before.inherited

    def finish(self) -> Ending:
        """What is only known at the end."""
        recorder = self._recorder
        assert recorder is not None
        head = apply_decisions(conclude(recorder), recorded_decisions(recorder.agent, recorder.id))
        sealed = recorder.sealed
        for block in recorder.rest():
            self._take(block)
        recorder.let_go()
        counts = {"messages": len(recorder), **count_events(head)}
        values = session_values(head, recorder.patches, counts, sealed)
        return Ending(
            values, _usage_of(head), recorder.patches, self._before, sealed, list(self._tail.values()),
            [_event(kind, event) for kind, event in iter_events(head)], list(_marks(head, recorder)),
            Compared(min((self._same, *self._tail)), self.changed(), head.info.tip),
        )  # fmt: skip

    def changed(self) -> list[int]:
        """Messages of the last ones that are not as they were when they were last written; each is told once."""
        found, self._differing = self._differing, []
        return [before.index for before, message in found if _is_other(before, self._completed(message))]

    def _completed(self, message: m.Message) -> m.Message:
        """A message with what is kept beside it."""
        assert self._recorder is not None
        copy = _MESSAGE.decode(_encode(message))
        self._recorder.patches.apply(copy)
        return copy

    @property
    def has_news(self) -> bool:
        """Whether there are messages that were not written yet, or not as they are now."""
        assert self._recorder is not None
        held = list(self._recorder.held())
        return any(message.index not in self._tail or _is_other(self._tail[message.index], message) for message in held)

    def write_so_far(self, store: Store, id: int, waiting: list[Messages]) -> int:
        """Write the messages that are there, though more may come; returns how many there are.

        `waiting` is where `give` has put what became settled. What is only known at the end needs another reading.
        """
        recorder = self._recorder
        assert recorder is not None
        store.sessions.remove_tail(id, self._known)
        first = self._known = recorder.sealed
        messages = list(recorder.held())
        for start in range(0, len(messages), BLOCK):
            self._take(messages[start : start + BLOCK])
        for piece in waiting:
            piece.write(store, id)
        waiting.clear()
        # They may change until they are settled, so that what was written of them is remembered as it was.
        self._tail = {message.index: message for message in _MESSAGES.decode(_encode(messages))}
        self._tail_tools = {message.index: self._tools_of(message) for message in messages}
        times = [message.timestamp.timestamp() for message in messages if message.timestamp is not None]
        store.sessions.update_progress(id, len(recorder), first, max(times, default=None))
        return len(recorder)

    # --- messages ---

    def _take(self, messages: list[m.Message]) -> None:
        assert self._recorder is not None
        times, tail, tool_of = self._recorder.times, self._tail, self._tool_of
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
        """How far what is written anew is what was there."""
        for message in messages:
            if message.index == self._same < len(self._old) and hash(_encode(message)) == self._old[self._same]:
                self._same += 1

    def _settle_tail(self, before: m.Message, message: m.Message, piece: Messages) -> bool:
        """Whether one of the last messages stays in the index as it is; it is taken out where it does not."""
        if _is_other(before, message):
            self._differing.append((before, message))
        if self._is_indexed(before, message):
            return True
        piece.changed.append(before)
        return False

    def _is_indexed(self, before: m.Message, message: m.Message) -> bool:
        """Whether a message is in the index as it is now; the call of a result may have become known only later."""
        if _searchable(before) != _searchable(message):
            return False
        return self._tail_tools.get(message.index, []) == self._tools_of(message)

    def _tools_of(self, message: m.Message) -> list[str | None]:
        return [text.tool for text in texts_of(message, self._tool_of)]

    def _tool_of(self, call_id: str) -> str | None:
        if (name := self._tools.get(call_id)) is not None:
            return name
        call = self._recorder.find_call(call_id) if self._recorder is not None else None
        return call.name if call is not None else None


def _usage_of(head: Session) -> tuple[m.Usage, str | None, float | None]:
    info = head.info
    return info.usage, info.models[-1] if info.models else None, _seconds(info.ended_at)


def tools_in(message: m.Message) -> dict[str, str]:
    """The tools of the calls in a message, by the call."""
    return {block.id: block.name for block in message.blocks if isinstance(block, m.ToolCall)}


def _differing(now: Mapping[int, object], before: Mapping[int, object]) -> Iterator[int]:
    return (key for key in now.keys() | before.keys() if now.get(key) != before.get(key))


def _searchable(message: m.Message) -> bytes:
    return _encode((message.author, message.model, message.timestamp, message.blocks))


def _is_other(before: m.Message, now: m.Message) -> bool:
    """Whether a message says something else. Tokens that moved on to a later record of the response are told there."""
    if now.usage is not None and now.usage != before.usage:
        return True
    return (before.queued, before.inherited) != (now.queued, now.inherited) or _searchable(before) != _searchable(now)


def counted(message: m.Message, name_of: ToolNameOf) -> tuple[list[TextRow], UsageRows]:
    """What can be searched and counted in one message."""
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


def _marks(head: Session, draft: SessionBuilder) -> Iterator[tuple[int, str]]:
    """The messages that `is:` finds, and the mark of each: where the event is recorded, and the call it is about."""
    for kind, event in iter_events(head):
        if isinstance(kind.search, Marked):
            for field in kind.search.fields:
                for index in _messages_of(draft, getattr(event, field)):
                    yield index, kind.search.word


def _messages_of(draft: SessionBuilder, value: int | str | list[str] | None) -> Iterator[int]:
    """The messages that a field names: a message, a call, or several calls."""
    if isinstance(value, int):
        yield value
        return
    for call_id in [value] if isinstance(value, str) else value or []:
        call = draft.find_call(call_id) if call_id else None
        if call is not None:
            yield call.message
