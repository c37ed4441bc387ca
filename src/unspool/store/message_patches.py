"""Corrections to stored messages.

A block of messages is written once. Corrections that later lines of the log make to a message in it (its author, the
outcome of a call, its usage, new content) are stored separately and applied when messages are read.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from ..core import model as m
from ..core.sinks import apply_outcome


class Span(msgspec.Struct, array_like=True, gc=False):
    """Consecutive messages on the same branch and in the same context state; the default state has no span."""

    first: int
    last: int
    branch: int
    context: m.ContextState


class MessagePatches(msgspec.Struct, omit_defaults=True):
    """Corrections to the messages of one session, by message index."""

    authors: dict[int, m.Author] = {}
    outcomes: dict[int, dict[str, m.Outcome]] = {}
    usages: dict[int, m.Usage | None] = {}
    parents: dict[int, int | None] = {}
    stitched: set[int] = set()
    rewritten: dict[int, m.Message] = {}
    spans: list[Span] = []
    inherited: int = 0
    """The number of sealed messages that come from the session this one was forked from."""

    def apply(self, message: m.Message) -> None:
        """Correct the content of a message."""
        index = message.index
        if index in self.rewritten:
            newer = self.rewritten[index]
            message.blocks, message.usage = newer.blocks, newer.usage
        message.author = self.authors.get(index, message.author)
        message.usage = self.usages.get(index, message.usage)
        message.parent_index = self.parents.get(index, message.parent_index)
        if index in self.stitched:
            message.link = "stitched"
        for call_id, outcome in self.outcomes.get(index, {}).items():
            apply_outcome(message, call_id, outcome)

    def apply_span(self, message: m.Message) -> None:
        """Set the branch of a message, and whether it is still in context."""
        found = bisect_right(self.spans, message.index, key=lambda span: span.first) - 1
        if found >= 0 and message.index <= self.spans[found].last:
            message.branch, message.context = self.spans[found].branch, self.spans[found].context

    @property
    def is_empty(self) -> bool:
        """Whether no message is corrected or in a span."""
        corrections = (self.authors, self.outcomes, self.usages, self.parents, self.stitched, self.rewritten)
        return not self.spans and not any(corrections)
