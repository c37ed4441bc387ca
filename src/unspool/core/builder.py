"""What a reader builds while it goes through a log: the messages as columns of numbers, and the events it found.

A draft is one session on its way to a record. It either keeps the messages, or forgets their text as soon as the
events in it are found, so that a log of any size fits; a `Replay` then goes through the same log a second time and
hands out the messages one by one.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from ..io.decode import Damage, raw_in
from . import model as m
from .events import EVENT_KINDS, EventKind
from .tree import (
    COMMAND,
    CONTINUED,
    INHERITED,
    MODEL,
    NONE,
    PROMPT,
    QUEUED,
    STANDIN,
    STITCHED,
    UNANSWERED,
    USAGE_MOVED,
    find_cycles,
)  # fmt: skip

K = TypeVar("K")
V = TypeVar("V")

_NOTHING = msgspec.Raw(b"null")


class Recent(Generic[K, V]):
    """A dict that remembers at least the last `limit` keys and forgets the rest, to stay small on any log."""

    __slots__ = ("limit", "new", "old")

    def __init__(self, limit: int = 1 << 16) -> None:
        self.new: dict[K, V] = {}
        self.old: dict[K, V] = {}
        self.limit = limit

    def get(self, key: K) -> V | None:
        """The value, or None when the key is unknown or forgotten."""
        value = self.new.get(key)
        return value if value is not None or not self.old else self.old.get(key)

    def put(self, key: K, value: V) -> None:
        """Remember a value."""
        if len(self.new) >= self.limit:
            self.rotate()
        self.new[key] = value

    def rotate(self) -> None:
        """Make room: what was old is forgotten, what was new is old."""
        self.old, self.new = self.new, {}


class Call(NamedTuple):
    """A tool call that waits for its result."""

    message: int
    name: str
    raw_input: msgspec.Raw
    timestamp: datetime | None


class Reply:
    """A model response, which may be written as several messages."""

    __slots__ = ("first", "key", "last", "usage")

    def __init__(self, key: str, first: int) -> None:
        self.key = key
        self.first = first
        self.last = first
        self.usage: m.Usage | None = None


class SessionBuilder:
    """One session while it is being read."""

    # A list for each kind of event, made from the table; declared here for type checkers.
    boundaries: list[m.Boundary]
    clears: list[m.ContextClear]
    interruptions: list[m.Interruption]
    rejections: list[m.Rejection]
    rollbacks: list[m.Rollback]
    failures: list[m.Failure]
    orphans: list[m.Orphan]
    subagents: list[m.Subagent]
    resumes: list[m.Resume]
    branches: list[m.Branch]
    problems: list[m.Problem]

    def __init__(
        self,
        agent: str,
        id: str,
        kind: m.Kind = "main",
        *,
        keep: bool = True,
        hand_on: Callable[[m.Message], None] | None = None,
    ) -> None:
        """`keep` the messages, or forget them; `hand_on` gets each message instead, when it is first said."""
        self.agent = agent
        self.id = id
        self.kind: m.Kind = kind
        self.keep = keep
        # what a list of sessions shows
        self.files: list[m.LogFile] = []
        self.versions: dict[str, None] = {}
        self.models: dict[str, None] = {}
        self.project: m.Project | None = None
        self.git: m.Git | None = None
        self.title: str | None = None
        self.parent: str | None = None
        self.archived = False
        self.unanswered: m.Unanswered = "omitted"
        self.live_status: m.Status | None = None
        self.origin = m.Origin(kind="new")
        # messages, as columns
        self.messages: list[m.Message] = []
        self._store: Callable[[m.Message], None] | None = self.messages.append if keep else hand_on
        self.parents: array[int] = array("i")
        self.flags: array[int] = array("H")
        self._times: array[float] = array("d")
        # what later lines told of earlier messages
        self.authors: dict[int, m.Author] = {}
        self.outcomes: dict[int, dict[str, m.Outcome]] = {}
        self.usages: dict[int, m.Usage] = {}
        self.finals: dict[int, int] = {}
        for event_kind in EVENT_KINDS:
            setattr(self, event_kind.collected, [])
        self.inherited_boundaries: list[m.Boundary] = []
        # the end of the conversation, and why each dead line was left
        self.tip: int | None = None
        self.tip_rule = "last message"
        self.branch_reasons: dict[int, m.BranchReason] = {}
        self._begin_reading()

    def _begin_reading(self) -> None:
        self.bytes_at: Callable[[int, int], bytes] = _no_bytes
        """Gives the bytes of the block that is being read."""
        self.open_calls: dict[str, Call] = {}
        self._open_in: dict[int, int] = {}
        self._calls: Recent[str, Call] = Recent()
        self.recent: Recent[str, int] = Recent()
        """Latest message with each id."""
        self._hashes: array[int] = array("q")
        self._waiting: list[tuple[int, str, m.Source]] = []
        self._replies: Recent[str, Reply] = Recent(1 << 12)
        self._reply = Reply("", NONE)
        self._total: list[int | None] = [None] * 5

    def events(self, kind: EventKind) -> list[Any]:
        """The events of a kind that were found so far."""
        found: list[Any] = getattr(self, kind.collected)
        return found

    def __len__(self) -> int:
        return len(self.parents)

    def __bool__(self) -> bool:
        return True

    @property
    def times(self) -> array[float]:
        """When each message was written, in seconds; 0.0 where that is not known."""
        if self.keep and len(self._times) < len(self.messages):
            later = self.messages[len(self._times) :]
            self._times.extend(_seconds(message.timestamp) for message in later)
        return self._times

    # --- messages ---

    def at_hand(self, index: int) -> m.Message | None:
        """A message that is still here, to be told what later lines say of it."""
        return self.messages[index] if self.messages else None

    def add(
        self,
        role: m.Role,
        author: m.Author,
        blocks: list[m.Block],
        source: m.Source,
        id: str | None,
        parent: int,
        timestamp: datetime | None,
        inherited: bool = False,
        queued: bool = False,
    ) -> int:
        """Add a message that is not the model's; returns its index."""
        flag = 0
        if author == "human":
            if role == "user":
                flag = PROMPT | QUEUED if queued else PROMPT
                if blocks and type(blocks[0]) is m.Attachment:
                    flag |= COMMAND
        elif role == "assistant":
            flag = STANDIN
        index = len(self.parents)
        self.parents.append(parent)
        self.flags.append(flag | INHERITED if inherited else flag)
        if id is not None:
            recent = self.recent
            if len(recent.new) >= recent.limit:
                recent.rotate()
            recent.new[id] = index
        if self._store is not None:
            message = m.Message(index, role, author, blocks, source, id, parent if parent >= 0 else None, timestamp)
            if inherited or queued:
                message.inherited, message.queued = inherited, queued
            self._store(message)
        if not self.keep:
            self._times.append(_seconds(timestamp))
            self._hashes.append(hash(id) if id is not None else 0)
        return index

    def add_reply(
        self,
        blocks: list[m.Block],
        source: m.Source,
        id: str | None,
        parent: int,
        timestamp: datetime | None,
        model: str | None,
        reply: str,
        usage: m.Usage | None = None,
        inherited: bool = False,
    ) -> int:
        """Add something the model said; `reply` is the agent's id of the response it is a piece of."""
        index = len(self.parents)
        flag = MODEL
        if reply == self._reply.key:
            piece_of = self._reply
        else:
            piece_of = self._begin_reply(reply, index)
            if model is not None and model not in self.models:
                self.models[model] = None
        if piece_of.first != index:
            flag |= CONTINUED
            self._move_usage(piece_of, usage, inherited)
            piece_of.last = index
        elif usage is not None:
            self._count(usage, 1, inherited)
        piece_of.usage = usage
        for block in blocks:
            if type(block) is m.ToolCall:
                self.open_calls[block.id] = Call(index, block.name, block.raw_input, timestamp)
                self._open_in[index] = self._open_in.get(index, 0) + 1
                flag |= UNANSWERED
        self.parents.append(parent)
        self.flags.append(flag | INHERITED if inherited else flag)
        if id is not None:
            recent = self.recent
            if len(recent.new) >= recent.limit:
                recent.rotate()
            recent.new[id] = index
        if self._store is not None:
            above = parent if parent >= 0 else None
            message = m.Message(
                index, "assistant", "model", blocks, source, id, above, timestamp, model, piece_of.first, usage
            )
            if inherited:
                message.inherited = True
            self._store(message)
        if not self.keep:
            self._times.append(_seconds(timestamp))
            self._hashes.append(hash(id) if id is not None else 0)
        return index

    def _begin_reply(self, key: str, index: int) -> Reply:
        """Another response than that of the message before: a new one, or a further piece of an older one."""
        reply = self._replies.get(key)
        if reply is None:
            reply = Reply(key, index)
            self._replies.put(key, reply)
        self._reply = reply
        return reply

    def _move_usage(self, reply: Reply, usage: m.Usage | None, inherited: bool) -> None:
        """Every piece of a response repeats its usage, and the last one is final: only that keeps it."""
        before = reply.usage
        if before is not None:
            self.flags[reply.last] |= USAGE_MOVED
            if (message := self.at_hand(reply.last)) is not None:
                message.usage = None
        if before != usage:
            if before is not None:
                self._count(before, -1, inherited)
            if usage is not None:
                self._count(usage, 1, inherited)

    def replace(self, index: int, blocks: list[m.Block], line: int, usage: m.Usage | None = None) -> None:
        """The log said a message again, with more in it: the last word counts."""
        self.finals[index] = line
        if (message := self.at_hand(index)) is not None:
            say_again(message, blocks, usage)

    def set_author(self, index: int, author: m.Author) -> None:
        """A later line told who wrote a message."""
        self.authors[index] = author
        self.flags[index] = self.flags[index] | PROMPT if author == "human" else self.flags[index] & ~PROMPT
        if (message := self.at_hand(index)) is not None:
            message.author = author

    def set_outcome(self, index: int, call_id: str, outcome: m.Outcome) -> None:
        """A later line told how a call really ended."""
        self.outcomes.setdefault(index, {})[call_id] = outcome
        if (message := self.at_hand(index)) is not None:
            apply_outcome(message, call_id, outcome)

    def set_usage(self, index: int, usage: m.Usage) -> None:
        """A later line told what a response cost."""
        self._count(usage, 1, bool(self.flags[index] & INHERITED))
        self.usages[index] = usage
        if (message := self.at_hand(index)) is not None:
            message.usage = usage

    def add_usage(self, usage: m.Usage) -> None:
        """Tokens that belong to the session but to none of its messages."""
        self._count(usage, 1, inherited=False)

    def _count(self, usage: m.Usage, sign: int, inherited: bool) -> None:
        if inherited:
            return
        total = self._total
        if (value := usage.input) is not None:
            total[0] = (total[0] or 0) + sign * value
        if (value := usage.output) is not None:
            total[1] = (total[1] or 0) + sign * value
        if (value := usage.cache_read) is not None:
            total[2] = (total[2] or 0) + sign * value
        if (value := usage.cache_write) is not None:
            total[3] = (total[3] or 0) + sign * value
        if (value := usage.reasoning) is not None:
            total[4] = (total[4] or 0) + sign * value

    @property
    def usage(self) -> m.Usage:
        """The sum over all responses, each counted once."""
        return m.Usage(*self._total)

    # --- tool calls ---

    def close_call(self, call_id: str) -> Call | None:
        """A result arrived: the call it answers, if the log has it. Its input is known the first time only."""
        call = self.open_calls.pop(call_id, None)
        if call is None:
            return self._calls.get(call_id)
        self._calls.put(call_id, call._replace(raw_input=_NOTHING))
        left = self._open_in[call.message] - 1
        self._open_in[call.message] = left
        if not left:
            del self._open_in[call.message]
            self.flags[call.message] &= ~UNANSWERED
        return call

    def find_call(self, call_id: str) -> Call | None:
        """A call by its id, answered or not."""
        return self.open_calls.get(call_id) or self._calls.get(call_id)

    # --- places ---

    def find(self, id: str | None) -> int | None:
        """Index of the latest message with this id."""
        return self.recent.get(id) if id is not None else None

    def alias(self, id: str, index: int) -> None:
        """Another id for a message: of a record that links the chain but says nothing."""
        self.recent.put(id, index)

    def wait_for(self, index: int, parent_id: str, source: m.Source) -> None:
        """The parent of a message is not known (yet)."""
        self._waiting.append((index, parent_id, source))

    def raw_at(self, source: m.Source, *path: str | int) -> msgspec.Raw:
        """A piece of a line once more: what we can name but not read is kept as it is."""
        return raw_in(self.bytes_at(source.offset, source.length), *path)

    def unknown_record(self, detail: str, source: m.Source) -> None:
        """Tell of a record that is whole but of no known kind."""
        record = self.raw_at(source)
        self.problems.append(m.Problem(reason="unknown-record", detail=detail, source=source, record=record))

    def damage(self, file: int, damage: Damage) -> None:
        """Tell of a line that is not simply a record."""
        source = m.Source(file, *damage.place)
        self.problems.append(m.Problem(reason=damage.reason, detail=damage.detail, source=source))
        self.files[file].damaged += damage.lost or damage.reason == "salvaged"

    def last_before(self, moment: datetime) -> int | None:
        """The last message that was written by then."""
        seconds = moment.timestamp()
        return max((index for index, time in enumerate(self.times) if 0.0 < time <= seconds), default=None)

    # --- after the last line ---

    def forget(self) -> None:
        """Let go of what only reading needs."""
        self.recent, self._calls, self._replies = Recent(), Recent(), Recent()

    def settle(self) -> None:
        """Find the parents that were not known, and make sure that every chain ends."""
        if not self._waiting:
            return
        sources = {index: source for index, _, source in self._waiting}
        places = self._places({id for _, id, _ in self._waiting})
        for index, id, source in self._waiting:
            candidates = [place for place in places.get(id, ()) if place != index]
            parent = max((place for place in candidates if place < index), default=None)
            if parent is None:
                parent = min(candidates, default=None)
            if parent is None:
                self._stitch(index, source, "missing-parent", f"its parent {id} is not in the log")
            else:
                self.parents[index] = parent
        for index in find_cycles(self.parents, sources):
            self._stitch(index, sources.get(index), "cycle", "its parents form a ring")
        self._waiting.clear()
        for message in self.messages:
            if message.index in sources:
                parent = self.parents[message.index]
                message.parent_index = parent if parent >= 0 else None

    def _places(self, ids: set[str]) -> dict[str, list[int]]:
        """Where messages with these ids stand: also those that are too old to be remembered."""
        places: dict[str, list[int]] = {}
        if self.keep:
            for message in self.messages:
                if message.id in ids:
                    places.setdefault(message.id, []).append(message.index)
            return places
        wanted = {hash(id): id for id in ids}
        for index, hashed in enumerate(self._hashes):
            if hashed in wanted:
                places.setdefault(wanted[hashed], []).append(index)
        return places

    def _stitch(self, index: int, source: m.Source | None, reason: str, detail: str) -> None:
        self.parents[index] = index - 1
        self.flags[index] |= STITCHED
        self.problems.append(m.Problem(reason=reason, detail=f"message {index}: {detail}", source=source))
        if (message := self.at_hand(index)) is not None:
            message.link = "stitched"

    def complete(self, message: m.Message) -> None:
        """Bring a message to what the whole log knows of it."""
        index = message.index
        parent = self.parents[index]
        message.parent_index = parent if parent >= 0 else None
        if self.flags[index] & STITCHED:
            message.link = "stitched"
        if index in self.authors:
            message.author = self.authors[index]
        if self.flags[index] & USAGE_MOVED:
            message.usage = None
        elif index in self.usages:
            message.usage = self.usages[index]
        for call_id, outcome in self.outcomes.get(index, {}).items():
            apply_outcome(message, call_id, outcome)


def _no_bytes(offset: int, length: int) -> bytes:
    raise LookupError(f"bytes {offset} to {offset + length} are not at hand")


def _seconds(timestamp: datetime | None) -> float:
    return timestamp.timestamp() if timestamp is not None else 0.0


def apply_outcome(message: m.Message, call_id: str, outcome: m.Outcome) -> None:
    """Correct how a call ended."""
    for block in message.blocks:
        if type(block) is m.ToolResult and block.call_id == call_id:
            block.outcome = outcome


def say_again(message: m.Message, blocks: list[m.Block], usage: m.Usage | None) -> None:
    """Give a message its newer words."""
    message.blocks = blocks
    if usage is not None:
        message.usage = usage


class ReplayBuilder(SessionBuilder):
    """The second pass over a log: hands on each message in order, as soon as its last word is known."""

    def __init__(self, first: SessionBuilder, hand_on: Callable[[m.Message], None]) -> None:
        super().__init__(first.agent, first.id, first.kind, keep=True)
        self._last_lines = first.finals
        self._hand_on = hand_on
        self._first = first
        self._held: deque[m.Message] = deque()
        self._store = self._hold

    @property
    def times(self) -> array[float]:
        """As the first pass found them: here no message is kept."""
        return self._first.times

    def _hold(self, message: m.Message) -> None:
        self._held.append(message)
        self._release()

    def replace(self, index: int, blocks: list[m.Block], line: int, usage: m.Usage | None = None) -> None:
        """Take the last word, and let go of what waited for it."""
        self.finals[index] = line
        if self._held and self._held[0].index <= index:
            say_again(self._held[index - self._held[0].index], blocks, usage)
            self._release()

    def _release(self) -> None:
        held = self._held
        while held:
            index = held[0].index
            if self._last_lines.get(index, 0) > self.finals.get(index, 0):
                return
            self._hand_on(held.popleft())
