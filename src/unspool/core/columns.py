"""The messages of a session as columns of numbers: parents, flags, and the ids needed to find parents."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from . import model as m
from .recent import Recent
from .tree import NONE, STITCHED, find_cycles

FindIds = Callable[[set[str]], dict[str, list[int]]]
"""Returns the indices of all messages with the given ids."""


class _Unresolved(NamedTuple):
    message: int
    parent_id: str
    source: m.Source


class MessageColumns:
    """Parents and flags of all messages, and the recent messages by id."""

    __slots__ = ("_relinked", "_unresolved", "flags", "gaps", "ids", "parents")

    def __init__(self) -> None:
        self.parents: array[int] = array("i")
        self.flags: array[int] = array("H")
        self.ids: Recent[str, int] = Recent()
        """The latest message with each id."""
        self.gaps: list[int] = []
        """Messages whose recorded parent is missing."""
        self._unresolved: list[_Unresolved] = []
        self._relinked: list[int] = []
        """Messages that were given a parent that comes after them."""

    def __len__(self) -> int:
        return len(self.parents)

    def append(self, parent: int, flag: int, id: str | None) -> int:
        """Add the row of the next message; returns its index."""
        parents = self.parents
        index = len(parents)
        parents.append(parent)
        self.flags.append(flag)
        if id is not None:
            ids = self.ids
            if len(ids.new) >= ids.limit:
                ids.rotate()
            ids.new[id] = index
        return index

    def wait_for_parent(self, index: int, parent_id: str, source: m.Source) -> None:
        """Remember that the parent of a message has not been read yet."""
        self._unresolved.append(_Unresolved(index, parent_id, source))

    def relink(self, index: int, parent: int) -> None:
        """Correct the parent of a message."""
        self.parents[index] = parent
        if parent > index:
            self._relinked.append(index)

    def resolve_parents(self, find_ids: FindIds) -> tuple[list[int], list[m.Problem]]:
        """Find the parents that were unknown when their messages were read, and make sure that every chain ends.

        Returns the messages whose parents were set, and the problems. A parent that is missing, or that would close a
        cycle, is replaced with an earlier message and reported as a problem.
        """
        unresolved, self._unresolved = self._unresolved, []
        relinked, self._relinked = self._relinked, []
        if not unresolved and not relinked:
            return [], []
        problems: list[m.Problem] = []
        found = find_ids({entry.parent_id for entry in unresolved})
        for index, parent_id, source in unresolved:
            candidates = [candidate for candidate in found.get(parent_id, ()) if candidate != index]
            parent = max((candidate for candidate in candidates if candidate < index), default=None)
            if parent is None:
                parent = min(candidates, default=None)
            if parent is None:
                self._stitch(index, index - 1)
                detail = f"message {index}: its parent {parent_id} is not in the log"
                problems.append(m.Problem(reason="missing-parent", detail=detail, source=source))
            else:
                self.parents[index] = parent
        sources = {entry.message: entry.source for entry in unresolved}
        # Only a parent that comes later in the log can close a cycle, and only these parents come later.
        cycles = sorted(find_cycles(self.parents, [*sources, *relinked]))
        self._break_cycles(cycles)
        problems += (_cycle_problem(index, sources.get(index)) for index in cycles)
        return [*sources, *(index for index in cycles if index not in sources)], problems

    def _break_cycles(self, starts: list[int]) -> None:
        """Link the first message of each cycle to the last one before it whose parents all come before their children.

        The message just before it is not always suitable: its own parents may lead back to the cycle.
        """
        if not starts:
            return
        parents, left = self.parents, deque(starts)
        is_ordered = bytearray(len(parents))
        last = NONE
        for index in range(starts[-1] + 1):
            if left and left[0] == index:
                self._stitch(left.popleft(), last)
            parent = parents[index]
            if parent < 0 or (parent < index and is_ordered[parent]):
                is_ordered[index] = 1
                last = index

    def _stitch(self, index: int, parent: int) -> None:
        self.parents[index] = parent
        self.flags[index] |= STITCHED
        self.gaps.append(index)


def _cycle_problem(index: int, source: m.Source | None) -> m.Problem:
    detail = f"message {index}: its parents form a cycle"
    return m.Problem(reason="cycle", detail=detail, source=source, message_index=None if source is not None else index)
