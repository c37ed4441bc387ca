"""Passes messages on to the store in blocks while a session is read.

Later lines may still change an earlier message: its author, the outcome of its call, its usage. Changes to one of the
last `WINDOW` messages are made in the message itself. Older messages may have been passed on already, so changes to
them are collected and stored separately, as patches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

from ..core import model as m
from ..core.assemble import SessionAssembler
from ..core.sinks import MessageIndex, apply_outcome, replace_blocks
from ..store.blocks import BLOCK
from ..store.message_patches import MessagePatches, Span

WINDOW = 64
"""Number of last messages that can still be changed in place."""


class StreamSink(MessageIndex):
    """Emits blocks of messages that can no longer change in place; the first `known` messages are already stored."""

    skip = None

    def __init__(self, emit: Callable[[list[m.Message]], None], known: int = 0) -> None:
        super().__init__()
        self.patches = MessagePatches()
        """Changes to messages that could no longer be changed in place."""
        self.known = known
        self._emit = emit
        self._count = 0
        self._held: deque[m.Message] = deque()

    def add(self, message: m.Message) -> None:
        """Hold a message back, and emit a block of older ones once there are enough."""
        self.note(message.timestamp, message.id, message.source.length)
        self._count += 1
        if message.index < self.known:
            return
        self._held.append(message)
        if len(self._held) >= BLOCK + WINDOW:
            self._emit([self._held.popleft() for _ in range(BLOCK)])

    @property
    def sealed(self) -> int:
        """Number of messages that were emitted, and can no longer change in place."""
        return max(self.known, self._count - len(self._held))

    def held(self) -> Iterator[m.Message]:
        """Iterate over the last messages, which can still change."""
        return iter(self._held)

    def rest(self) -> Iterator[list[m.Message]]:
        """Iterate over the last messages in blocks, after the last line."""
        messages = iter(self._held)
        while block := list(islice(messages, BLOCK)):
            yield block

    def close(self) -> None:
        """Break the reference to the receiver, so that memory is freed without waiting for the garbage collector."""
        self._emit = _reject

    # --- changes ---

    def set_blocks(self, index: int, blocks: list[m.Block], usage: m.Usage | None, record: int) -> None:
        """Replace the content of a message."""
        if (message := self._in_reach(index)) is not None:
            replace_blocks(message, blocks, usage)
        if self._is_out_of_reach(index):
            source = m.Source(0, record, 0, 0)
            self.patches.rewritten[index] = m.Message(index, "assistant", "model", blocks, source, usage=usage)

    def set_author(self, index: int, author: m.Author) -> None:
        """Correct an author."""
        if (message := self._in_reach(index)) is not None:
            message.author = author
        if self._is_out_of_reach(index):
            self.patches.authors[index] = author

    def set_outcome(self, index: int, call_id: str, outcome: m.Outcome) -> None:
        """Correct the outcome of a call."""
        if (message := self._in_reach(index)) is not None:
            apply_outcome(message, call_id, outcome)
        if self._is_out_of_reach(index):
            self.patches.outcomes.setdefault(index, {})[call_id] = outcome

    def set_usage(self, index: int, usage: m.Usage | None) -> None:
        """Set the usage of a message."""
        if (message := self._in_reach(index)) is not None:
            message.usage = usage
        if self._is_out_of_reach(index):
            self.patches.usages[index] = usage

    def set_parent(self, index: int, parent: int, is_stitched: bool) -> None:
        """Link a message to its parent."""
        self.patches.parents[index] = parent if parent >= 0 else None
        if is_stitched:
            self.patches.stitched.add(index)
            if (message := self._in_reach(index)) is not None:
                message.link = "stitched"

    def _in_reach(self, index: int) -> m.Message | None:
        first = self._count - len(self._held)
        return self._held[index - first] if index >= first and self._count - index <= WINDOW else None

    def _is_out_of_reach(self, index: int) -> bool:
        # A stored message may be neither in nor out of reach: when it is read again, the same change is made again.
        return self._count - index > WINDOW


def _reject(_: list[m.Message]) -> None:
    raise AssertionError("the sink is closed")


def spans_of(assembler: SessionAssembler, count: int) -> Iterator[Span]:
    """Iterate over runs of messages with the same branch and context state; live ones on branch 0 are left out."""
    if not assembler.branch and not assembler.gone:
        return
    run: Span | None = None
    for index in range(count):
        branch, context = assembler.branch_and_context(index)
        if run is not None and run.last == index - 1 and (run.branch, run.context) == (branch, context):
            run.last = index
            continue
        if run is not None:
            yield run
        run = Span(index, index, branch, context) if branch or context != "live" else None
    if run is not None:
        yield run
