"""Finds the messages added to a context since an earlier one, if none left it: far cheaper than a whole context."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator
from functools import cached_property

from .context import ContextMap
from .tree import Tree


class ContextGrowth:
    """The growth of the context from one response to the next."""

    def __init__(self, contexts: ContextMap, tree: Tree) -> None:
        self._changes = contexts.changes()
        self._tree = tree

    @cached_property
    def _owners(self) -> dict[int, list[int]]:
        """For each side message, the messages that bring it into the context."""
        found: dict[int, list[int]] = {}
        for index in self._tree.with_sides():
            for side in self._tree.sides(index):
                found.setdefault(side, []).append(index)
        return found

    @cached_property
    def _all_sides(self) -> list[int]:
        """All side messages, in order."""
        return sorted(self._owners)

    def added(self, before: int, request: int, context: Container[int]) -> list[int] | None:
        """Return the messages that `request` adds to the given context of `before`; None if some may have left it."""
        parents = self._tree.parents
        end = parents[before]
        if request <= before or bisect_right(self._changes, request) > bisect_left(self._changes, end):
            return None
        found = []
        index = parents[request]
        while end < index < request:
            found.append(index)
            index = parents[index]
        return [*found, *self._sides(found, before, request, context)] if index == end else None

    def _sides(self, chain: list[int], before: int, request: int, context: Container[int]) -> Iterator[int]:
        if not self._tree.has_sides:
            return
        for index in chain:
            yield from (side for side in self._tree.sides(index) if side < request)
        owners, sides = self._owners, self._all_sides
        for side in sides[bisect_left(sides, before) : bisect_left(sides, request)]:
            if any(owner in context for owner in owners[side]):
                yield side
