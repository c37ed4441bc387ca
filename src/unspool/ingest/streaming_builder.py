"""Reading a session for the store: messages leave in blocks as soon as they are settled, the rest when all is known.

Later lines may still tell something of an earlier message: who wrote it, how its call ended, what it cost. What they
tell of one of the last `WINDOW` messages is written into the message itself; older ones have left already, and what is
told of them is kept beside them, as patches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

from ..core import model as m
from ..core.assemble import SessionAssembler
from ..core.builder import Reply, SessionBuilder
from ..core.session import Session
from ..core.tree import INHERITED, STITCHED, USAGE_MOVED
from ..store.message_patches import MessagePatches, Span
from ..store.messages import BLOCK

WINDOW = 64
"""How many of the last messages can still change in place."""


class StreamingBuilder(SessionBuilder):
    """A draft whose messages go on to a store; the first `known` of them are there already."""

    def __init__(
        self, agent: str, id: str, kind: m.Kind, give: Callable[[list[m.Message]], None], known: int = 0
    ) -> None:
        super().__init__(agent, id, kind, keep=False, hand_on=self._take)
        self.patches = MessagePatches()
        self.known = known
        self._give = give
        self._held: deque[m.Message] = deque()

    def _take(self, message: m.Message) -> None:
        if message.index < self.known:
            return
        self._held.append(message)
        if len(self._held) >= BLOCK + WINDOW:
            self._give([self._held.popleft() for _ in range(BLOCK)])

    def at_hand(self, index: int) -> m.Message | None:
        """One of the last messages."""
        first = len(self) - len(self._held)
        return self._held[index - first] if index >= first and len(self) - index <= WINDOW else None

    @property
    def sealed(self) -> int:
        """How many messages have left, and can change no more."""
        return max(self.known, len(self) - len(self._held))

    def held(self) -> Iterator[m.Message]:
        """The last messages, which may still change."""
        return iter(self._held)

    def rest(self) -> Iterator[list[m.Message]]:
        """The last messages, block by block, after the last line."""
        messages = iter(self._held)
        while block := list(islice(messages, BLOCK)):
            yield block

    def let_go(self) -> None:
        """Nothing comes any more: what hangs together in a ring would stay until somebody looks for rings."""
        self._store = None
        self._give = _no_more

    # --- what later lines tell ---

    def replace(self, index: int, blocks: list[m.Block], line: int, usage: m.Usage | None = None) -> None:
        """Take newer words of a message; of one that has left, they are kept beside it."""
        super().replace(index, blocks, line, usage)
        if self._has_left(index):
            source = m.Source(0, line, 0, 0)
            self.patches.rewritten[index] = m.Message(index, "assistant", "model", blocks, source, usage=usage)

    def set_author(self, index: int, author: m.Author) -> None:
        """Learn who wrote a message."""
        super().set_author(index, author)
        if self._has_left(index):
            self.patches.authors[index] = author

    def set_outcome(self, index: int, call_id: str, outcome: m.Outcome) -> None:
        """Learn how a call ended."""
        super().set_outcome(index, call_id, outcome)
        if self._has_left(index):
            self.patches.outcomes.setdefault(index, {})[call_id] = outcome

    def set_usage(self, index: int, usage: m.Usage) -> None:
        """Learn what a response cost."""
        super().set_usage(index, usage)
        if self._has_left(index):
            self.patches.usages[index] = usage

    def _move_usage(self, reply: Reply, usage: m.Usage | None, inherited: bool) -> None:
        last = reply.last
        super()._move_usage(reply, usage, inherited)
        if self.flags[last] & USAGE_MOVED and self._has_left(last):
            self.patches.usages[last] = None

    def _has_left(self, index: int) -> bool:
        return len(self) - index > WINDOW

    def settle(self) -> None:
        """Find the parents that were not known; tell of those that are found only now."""
        waiting = [index for index, _, _ in self._waiting]
        super().settle()
        for index in waiting:
            parent = self.parents[index]
            self.patches.parents[index] = parent if parent >= 0 else None
            if self.flags[index] & STITCHED:
                self.patches.stitched.add(index)

    def inherited(self, count: int) -> int:
        """How many of the first messages belong to another session."""
        return sum(1 for flag in self.flags[:count] if flag & INHERITED)


def _no_more(_: list[m.Message]) -> None:
    raise AssertionError("the recorder has been let go of")


def conclude(recorder: StreamingBuilder) -> Session:
    """The record around the messages, with everything known; the patches are complete after it."""
    outline = SessionAssembler(recorder)
    patches = recorder.patches
    patches.inherited = recorder.inherited(recorder.sealed)
    patches.spans = list(_spans(outline, len(recorder)))
    return outline.header([])


def _spans(outline: SessionAssembler, count: int) -> Iterator[Span]:
    """Runs of messages with the same branch and state."""
    if not outline.branch and not outline.gone:
        return
    run: Span | None = None
    for index in range(count):
        branch, context = outline.place_of(index)
        if run is not None and run.last == index - 1 and (run.branch, run.context) == (branch, context):
            run.last = index
            continue
        if run is not None:
            yield run
        run = Span(index, index, branch, context) if branch or context != "live" else None
    if run is not None:
        yield run
