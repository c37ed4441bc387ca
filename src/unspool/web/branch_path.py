"""One line of a conversation, from its beginning to its tip, as runs of messages: small, however long it is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from ..core import model as m
from ..store.message_patches import Span

Run = tuple[int, int]
"""First and last message, both included."""


class BranchPath:
    """The messages of one line. A position counts along the line, an index counts all messages of the session."""

    def __init__(self, ranges: Iterable[Run]) -> None:
        self.ranges = list(ranges)
        self._ends = list(accumulate(last - first + 1 for first, last in self.ranges))
        self._firsts = [first for first, _ in self.ranges]

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def index_at(self, position: int) -> int:
        """The message at a position."""
        run = bisect_right(self._ends, position)
        before = self._ends[run - 1] if run else 0
        return self.ranges[run][0] + position - before

    def position_of(self, index: int) -> int:
        """Where a message is; of one that is not on the line, where it would be."""
        run = bisect_right(self._firsts, index) - 1
        if run < 0:
            return 0
        first, last = self.ranges[run]
        before = self._ends[run - 1] if run else 0
        return before + min(index, last) - first

    def __contains__(self, index: int) -> bool:
        run = bisect_right(self._firsts, index) - 1
        return run >= 0 and index <= self.ranges[run][1]

    def part(self, start: int, stop: int) -> list[Run]:
        """The runs from one position to another, that one not included."""
        found = []
        before = 0
        for (first, last), end in zip(self.ranges, self._ends, strict=True):
            if end > start and before < stop:
                found.append((first + max(0, start - before), min(last, first + stop - before - 1)))
            before = end
        return found

    def upto(self, index: int) -> list[Run]:
        """The runs up to a message, that one included."""
        return [(first, min(last, index)) for first, last in self.ranges if first <= index]


class Lines:
    """All lines of a session: which message belongs to which, and the trail of each."""

    def __init__(self, count: int, spans: Sequence[Span], branches: Sequence[m.Branch]) -> None:
        self._count = count
        self._spans = spans
        self._branches = {branch.id: branch for branch in branches}

    def branch_of(self, index: int) -> int:
        """The line that a message belongs to; 0 is the active one."""
        place = bisect_right(self._spans, index, key=lambda span: span.first) - 1
        if place >= 0 and index <= self._spans[place].last:
            return self._spans[place].branch
        return 0

    def own(self, branch: int) -> BranchPath:
        """The messages of a line, without what it shares with the one it left."""
        if branch == 0:
            return BranchPath(self._alive())
        return BranchPath(_joined((span.first, span.last) for span in self._spans if span.branch == branch))

    def trail(self, branch: int) -> BranchPath:
        """A line from the beginning of the conversation."""
        runs = list(self.own(branch).ranges)
        seen = {branch}
        while branch in self._branches:
            parent = self._branches[branch].parent_index
            branch = self.branch_of(parent) if parent is not None else branch
            if parent is None or branch in seen:
                break
            seen.add(branch)
            runs = [*self.own(branch).upto(parent), *runs]
        return BranchPath(_joined(sorted(runs)))

    def _alive(self) -> Iterator[Run]:
        begin = 0
        for span in self._spans:
            if span.branch:
                if span.first > begin:
                    yield begin, span.first - 1
                begin = span.last + 1
        if begin < self._count:
            yield begin, self._count - 1


def _joined(runs: Iterable[Run]) -> Iterator[Run]:
    """Runs that touch each other become one."""
    current: Run | None = None
    for first, last in runs:
        if current is not None and first <= current[1] + 1:
            current = current[0], max(current[1], last)
            continue
        if current is not None:
            yield current
        current = first, last
    if current is not None:
        yield current
