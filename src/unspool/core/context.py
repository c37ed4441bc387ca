"""Contexts: the messages that the model could see at any point of a session.

A context is found by following the chain of parents up from a message. The chain ends where older messages were
replaced by a summary (the messages that were kept are added), where the context was cleared, and at gaps of the log
(see `gaps`). Side messages, such as the results of parallel calls, are part of the context.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from . import model as m
from .tree import Tree


class Span(NamedTuple):
    """The messages in a context, in the order in which the model saw them."""

    indices: list[int]
    recorded: bool
    """False if the agent replaced the context by something that is not in the log."""


class ContextMap:
    """The context at every message of one session."""

    def __init__(
        self,
        tree: Tree,
        boundaries: Iterable[m.Boundary],
        clears: Iterable[m.ContextClear],
        resumes: Iterable[m.Resume],
        ends: frozenset[int],
    ) -> None:
        """The context starts over at the messages in `ends`, because the messages before them are missing."""
        self.tree = tree
        self._ends = ends
        self._boundaries: dict[int, m.Boundary] = {}
        self._clears = sorted(c.after_message_index for c in clears if c.after_message_index is not None)
        self._lost = {r.message_index: r.lost_message_indices for r in resumes}
        self._changes = {*ends, *self._lost, *(index + 1 for index in self._clears)}
        for boundary in boundaries:
            self._changes.add(boundary.message_index)
            if boundary.scope == "messages":
                self._boundaries[boundary.message_index] = boundary
            elif boundary.replaced_message_indices:
                self._lost[boundary.message_index] = boundary.replaced_message_indices

    def before(self, index: int) -> Span:
        """Return what was in context when the model began to write the message at `index`."""
        lost = set(self._lost.get(index, ()))
        return self._walk(self.tree.parents[index], index, lost)

    def upto(self, index: int) -> Span:
        """Return what would be in context for the next request, with the message at `index` as the last one."""
        return self._walk(index, len(self.tree), set())

    @property
    def has_changes(self) -> bool:
        """Whether anything ever left the context."""
        return bool(self._changes)

    def changes(self) -> list[int]:
        """Return the messages before which something left the context, in order."""
        return sorted(self._changes)

    def _walk(self, start: int, limit: int, lost: set[int]) -> Span:
        parents, ends = self.tree.parents, self._ends
        found: set[int] = set()
        below, index = limit, start
        boundary = None
        has_sides = self.tree.has_sides
        while index >= 0 and not (self._clears and self._cleared(index, below)):
            found.add(index)
            if has_sides:
                found.update(side for side in self.tree.sides(index) if side < limit)
            if self._lost:
                lost.update(self._lost.get(index, ()))
            boundary = self._boundaries.get(index)
            if boundary is not None or (ends and index in ends):
                break
            below, index = index, parents[index]
        tail = self.tree.in_order(found - lost)
        if boundary is None:
            return Span(tail, recorded=True)
        return Span(_join(boundary, tail, lost), boundary.context_recorded)

    def _cleared(self, index: int, below: int) -> bool:
        """Whether the context was cleared between a message and the next one."""
        position = bisect_left(self._clears, index)
        return position < len(self._clears) and self._clears[position] < below


def _join(boundary: m.Boundary, tail: list[int], lost: set[int]) -> list[int]:
    """Insert the messages that a compaction kept where the model sees them: after the summary of what came before."""
    # The chain may pass through a message that was kept.
    elsewhere = lost.union(tail)
    kept = [index for index in boundary.preserved_message_indices if index not in elsewhere]
    if not kept:
        return tail
    replaced = boundary.replaced_message_indices
    if replaced and max(kept) < min(replaced):
        return kept + tail
    edge = (boundary.message_index, boundary.summary_message_index)
    cut = max((position for position, index in enumerate(tail, 1) if index in edge), default=0)
    return tail[:cut] + kept + tail[cut:]
