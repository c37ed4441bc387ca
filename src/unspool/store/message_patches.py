"""What is known of messages beyond what their blocks hold."""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from ..core import model as m
from ..core.builder import apply_outcome


class Span(msgspec.Struct, array_like=True, gc=False):
    """Messages in a row that are not simply alive."""

    first: int
    last: int
    branch: int
    context: m.ContextState


class Facts(msgspec.Struct, omit_defaults=True):
    """What is known of messages beyond what their blocks hold."""

    authors: dict[int, m.Author] = {}
    outcomes: dict[int, dict[str, m.Outcome]] = {}
    usages: dict[int, m.Usage | None] = {}
    parents: dict[int, int | None] = {}
    stitched: set[int] = set()
    rewritten: dict[int, m.Message] = {}
    spans: list[Span] = []
    inherited: int = 0
    """How many of the settled messages belong to the session this one was forked from."""

    def apply(self, message: m.Message) -> None:
        """Complete a message, its place in the whole aside."""
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

    def place(self, message: m.Message) -> None:
        """Give a message its branch, and say whether the model still has it."""
        found = bisect_right(self.spans, message.index, key=lambda span: span.first) - 1
        if found >= 0 and message.index <= self.spans[found].last:
            message.branch, message.context = self.spans[found].branch, self.spans[found].context
