"""Branches of a conversation as ranges of message indices: few ranges, however long the session is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from ..core import model as m
from ..store.message_patches import Span

IndexRange = tuple[int, int]
"""First and last message, both included."""


class BranchPath:
    """The messages of one branch. A position counts along the branch, an index counts all messages of the session."""

    def __init__(self, ranges: Iterable[IndexRange]) -> None:
        self.ranges = list(ranges)
        self._ends = list(accumulate(last - first + 1 for first, last in self.ranges))
        self._firsts = [first for first, _ in self.ranges]

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def index_at(self, position: int) -> int:
        """Return the index of the message at a position."""
        number = bisect_right(self._ends, position)
        before = self._ends[number - 1] if number else 0
        return self.ranges[number][0] + position - before

    def position_of(self, index: int) -> int:
        """Return the position of a message; if it is not on the branch, that of the closest earlier one, or 0."""
        number = bisect_right(self._firsts, index) - 1
        if number < 0:
            return 0
        first, last = self.ranges[number]
        before = self._ends[number - 1] if number else 0
        return before + min(index, last) - first

    def __contains__(self, index: int) -> bool:
        number = bisect_right(self._firsts, index) - 1
        return number >= 0 and index <= self.ranges[number][1]

    def slice(self, start: int, stop: int) -> list[IndexRange]:
        """Return the ranges from position `start` up to, but not including, `stop`."""
        found = []
        before = 0
        for (first, last), end in zip(self.ranges, self._ends, strict=True):
            if end > start and before < stop:
                found.append((first + max(0, start - before), min(last, first + stop - before - 1)))
            before = end
        return found

    def up_to(self, index: int) -> list[IndexRange]:
        """Return the ranges up to and including a message."""
        return [(first, min(last, index)) for first, last in self.ranges if first <= index]


class BranchPaths:
    """All branches of a session: which message belongs to which, and the path of each."""

    def __init__(self, count: int, spans: Sequence[Span], branches: Sequence[m.Branch]) -> None:
        self._count = count
        self._spans = spans
        self._branches = {branch.id: branch for branch in branches}

    def branch_of(self, index: int) -> int:
        """Return the branch that a message belongs to; 0 is the active one."""
        number = bisect_right(self._spans, index, key=lambda span: span.first) - 1
        if number >= 0 and index <= self._spans[number].last:
            return self._spans[number].branch
        return 0

    def own(self, branch: int) -> BranchPath:
        """Return the messages that only this branch has."""
        if branch == 0:
            return BranchPath(self._active())
        return BranchPath(_merge((span.first, span.last) for span in self._spans if span.branch == branch))

    def full(self, branch: int) -> BranchPath:
        """Return a branch from the beginning of the conversation."""
        ranges = list(self.own(branch).ranges)
        seen = {branch}
        while branch in self._branches:
            parent = self._branches[branch].parent_index
            branch = self.branch_of(parent) if parent is not None else branch
            if parent is None or branch in seen:
                break
            seen.add(branch)
            ranges = [*self.own(branch).up_to(parent), *ranges]
        return BranchPath(_merge(sorted(ranges)))

    def _active(self) -> Iterator[IndexRange]:
        begin = 0
        for span in self._spans:
            if span.branch:
                if span.first > begin:
                    yield begin, span.first - 1
                begin = span.last + 1
        if begin < self._count:
            yield begin, self._count - 1


def _merge(ranges: Iterable[IndexRange]) -> Iterator[IndexRange]:
    """Join adjacent and overlapping ranges."""
    current: IndexRange | None = None
    for first, last in ranges:
        if current is not None and first <= current[1] + 1:
            current = current[0], max(current[1], last)
            continue
        if current is not None:
            yield current
        current = first, last
    if current is not None:
        yield current
