"""Writes what is read of a session into a store: new messages are added, changed ones replaced, the rest left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from .. import model as m
from ..draft import Draft, Recent
from ..record import Session
from ..store.base import Store
from ..store.facts import Facts
from ..store.parts import Part, parts_of
from ..store.rows import Act, StoredSession
from .recorder import BLOCK, Recorder, conclude

Touched = Callable[[str, msgspec.Raw], Iterable[str]]
"""The files that a call of some tool is about."""

Later = Callable[[Callable[[], None], int], None]
"""Takes some work for the store, and about how many bytes it holds."""

_encode = msgspec.json.Encoder().encode
_MESSAGES = msgspec.json.Decoder(list[m.Message])


class Target:
    """Where a session goes; its number is known once there is a row for it."""

    def __init__(self) -> None:
        self.id = 0


class SessionWriter:
    """One session on its way into the store.

    Messages are made ready here, by whoever reads; what goes to the store is given to `later`, which may do it at once
    or in another thread. The store is asked here only for a session that it has, before anything of it is written.
    """

    def __init__(self, store: Store, target: Target, touched: Touched, later: Later) -> None:
        self._store = store
        self._touched = touched
        self._later = later
        self._target = target
        self._known = 0
        self._tail: dict[int, m.Message] = {}
        self._before = Facts()
        self._recorder: Recorder | None = None
        self._tools: Recent[str, str] = Recent(1 << 12)
        """Tools of the last calls, by the call."""

    @property
    def id(self) -> int:
        """The session's number in the store."""
        return self._target.id

    def go_on_from(self, stored: StoredSession) -> None:
        """Keep what is settled; the last messages may have changed."""
        store, sealed = self._store, stored.sealed
        self.resume(stored)

        def drop() -> None:
            store.drop_blocks(stored.id, sealed)
            store.drop_acts(stored.id, sealed)
            store.drop_touches(stored.id, sealed)

        self._later(drop, 0)

    def resume(self, stored: StoredSession) -> None:
        """Know what is there."""
        self._known = stored.sealed
        self._before = self._store.facts(stored.id)
        self._tail = {message.index: message for message in self._store.messages(stored.id, stored.sealed)}

    def draft(self, agent: str, name: str, kind: m.Kind) -> Recorder:
        """What the reader fills."""
        self._recorder = Recorder(agent, name, kind, self._take, self._known)
        return self._recorder

    def finish(self, around: str, files: Callable[[], list[int]]) -> Session:
        """Write what is only known at the end."""
        recorder = self._recorder
        assert recorder is not None
        head = conclude(recorder)
        sealed, facts = recorder.sealed, recorder.facts
        for block in recorder.rest():
            self._take(block)
        left = list(self._tail.values())
        counts = {"messages": len(recorder), **counts_of(head)}
        events = [_event(kind, event) for kind, event in _events(head)]
        places = list(_places(head, recorder))
        weight = sum(len(event[4]) for event in events)

        def write() -> None:
            store = self._store
            store.drop_parts(self.id, left)
            self._correct(facts, sealed)
            store.put_events(self.id, events)
            store.put_places(self.id, places)
            store.put_spans(self.id, facts.spans)
            store.put_head(self.id, head, facts, counts, sealed, around)
            store.put_session_files(self.id, files())

        self._later(write, weight)
        return head

    def write_so_far(self, waiting: list[Callable[[], None]]) -> int:
        """Write the messages that are there, though more may come; returns how many there are.

        `waiting` is where `later` has put what became settled.

        What is only known at the end has to wait for `finish`, in another reading.
        """
        recorder, store = self._recorder, self._store
        assert recorder is not None
        store.drop_blocks(self.id, self._known)
        store.drop_acts(self.id, self._known)
        store.drop_touches(self.id, self._known)
        first = self._known = recorder.sealed
        messages = list(recorder.held())
        for start in range(0, len(messages), BLOCK):
            self._take(messages[start : start + BLOCK])
        for work in waiting:
            work()
        waiting.clear()
        # They may change until they are settled, so that what was written of them is remembered as it was.
        self._tail = {message.index: message for message in copied(messages)}
        times = [message.timestamp.timestamp() for message in messages if message.timestamp is not None]
        store.put_progress(self.id, len(recorder), first, max(times, default=None))
        return len(recorder)

    # --- messages ---

    def _take(self, messages: list[m.Message]) -> None:
        first, count, data = messages[0].index, len(messages), _encode(messages)
        parts: list[Part] = []
        acts: list[Act] = []
        touches: list[tuple[int, str]] = []
        changed: list[m.Message] = []
        for message in messages:
            before = self._tail.pop(message.index, None)
            if before is not None and _searchable(before) != _searchable(message):
                changed.append(before)
                before = None
            for block in message.blocks:
                if type(block) is m.ToolCall:
                    self._tools.put(block.id, block.name)
            if before is None:
                parts += parts_of(message, self._tool_of)
            acts += _acts_of(message, self._tool_of)
            for block in message.blocks:
                if type(block) is m.ToolCall:
                    touches += [(message.index, path) for path in self._touched(block.name, block.raw_input)]

        def write() -> None:
            store = self._store
            store.put_block(self.id, first, count, data)
            store.drop_parts(self.id, changed)
            store.put_parts(self.id, parts)
            store.put_acts(self.id, acts)
            store.put_touches(self.id, touches)

        self._later(write, 2 * len(data))

    def _tool_of(self, call_id: str) -> str | None:
        if (name := self._tools.get(call_id)) is not None:
            return name
        call = self._recorder.find_call(call_id) if self._recorder is not None else None
        return call.name if call is not None else None

    def _correct(self, facts: Facts, sealed: int) -> None:
        """What was learnt of messages that had left already."""
        before = self._before
        for index, author in facts.authors.items():
            if before.authors.get(index) != author:
                self._store.set_author(self.id, index, author)
        changed = {
            *_differing(facts.outcomes, before.outcomes), *_differing(facts.usages, before.usages),
            *_differing(facts.authors, before.authors), *_differing(facts.rewritten, before.rewritten),
        }  # fmt: skip
        for index in sorted(index for index in changed if index < sealed):
            self._correct_one(index, facts)

    def _correct_one(self, index: int, facts: Facts) -> None:
        store = self._store
        for message in store.messages(self.id, index, index + 1):
            if index in facts.rewritten and facts.rewritten[index] != self._before.rewritten.get(index):
                store.drop_parts(self.id, [message])
                facts.apply(message)
                store.put_parts(self.id, list(parts_of(message, self._tool_of)))
            facts.apply(message)
            store.drop_acts(self.id, index, index)
            store.put_acts(self.id, list(_acts_of(message, self._tool_of)))


def copied(messages: list[m.Message]) -> list[m.Message]:
    """The same messages, whatever happens to the originals."""
    return _MESSAGES.decode(_encode(messages))


def _differing(now: Mapping[int, object], before: Mapping[int, object]) -> Iterator[int]:
    return (key for key in now.keys() | before.keys() if now.get(key) != before.get(key))


def _searchable(message: m.Message) -> bytes:
    return _encode((message.author, message.blocks))


def _acts_of(message: m.Message, tool_of: Callable[[str], str | None]) -> Iterator[Act]:
    """What a message adds to the numbers; what it shares with the session it was forked from is counted there."""
    if message.inherited:
        return
    at = _seconds(message.timestamp)
    place = 0
    if message.author == "human" and message.role == "user":
        yield Act(message.index, place, "prompt", None, None, at, None)
        place += 1
    if message.usage is not None:
        yield Act(message.index, place, "reply", message.model, None, at, message.usage)
        place += 1
    for block in message.blocks:
        if type(block) is m.ToolResult:
            yield Act(message.index, place, "call", tool_of(block.call_id), block.outcome, at, None)
            place += 1


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


# --- events ----------------------------------------------------------------------------------------------------------


def _events(head: Session) -> Iterator[tuple[str, msgspec.Struct]]:
    kinds: tuple[tuple[str, Iterable[msgspec.Struct]], ...] = (
        ("compaction", head.compaction.boundaries), ("clear", head.context_clears),
        ("interruption", head.interruptions), ("rejection", head.rejections), ("rollback", head.rollbacks),
        ("error", head.errors), ("orphan", head.orphans), ("subagent", head.subagents), ("resume", head.resumes),
        ("branch", head.branches), ("problem", head.problems),
    )  # fmt: skip
    return ((kind, event) for kind, events in kinds for event in events)


def counts_of(head: Session) -> dict[str, int]:
    """How many events of each kind there are."""
    counts = dict.fromkeys(
        ("compaction", "clear", "interruption", "rejection", "rollback", "error", "orphan", "subagent", "resume",
         "branch", "problem"),
        0,
    )  # fmt: skip
    for kind, _ in _events(head):
        counts[kind] += 1
    return counts


def _event(kind: str, event: msgspec.Struct) -> tuple[str, int | None, float | None, str | None, bytes]:
    names = ("message_index", "after_message_index", "root_index")
    message = next((getattr(event, name) for name in names if hasattr(event, name)), None)
    return kind, message, _seconds(getattr(event, "timestamp", None)), getattr(event, "tool_name", None), _encode(event)


def _places(head: Session, draft: Draft) -> Iterator[tuple[int, str]]:
    """The messages that `is:` finds: where it is told, and the call it is about."""
    for rejection in head.rejections:
        yield from _both(draft, rejection.message_index, rejection.tool_use_id, "rejected")
    for interruption in head.interruptions:
        for index in (interruption.message_index, interruption.interrupted_message_index):
            if index is not None:
                yield index, "interrupted"
        for call_id in interruption.tool_use_ids:
            yield from _both(draft, None, call_id, "interrupted")
    for failure in head.errors:
        yield from _both(draft, failure.message_index, failure.tool_use_id, "error")
    for orphan in head.orphans:
        yield orphan.message_index, "orphan"


def _both(draft: Draft, index: int | None, call_id: str | None, kind: str) -> Iterator[tuple[int, str]]:
    if index is not None:
        yield index, kind
    call = draft.find_call(call_id) if call_id else None
    if call is not None:
        yield call.message, kind
