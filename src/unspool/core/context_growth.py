"""What a context has more than the one before it, where nothing has left it: far cheaper than a whole context."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator
from functools import cached_property

from .context import ContextMap
from .tree import Tree


class ContextGrowth:
    """How the context grows from one response to the next."""

    def __init__(self, contexts: ContextMap, tree: Tree) -> None:
        self._changes = contexts.changes()
        self._tree = tree

    @cached_property
    def _owners(self) -> dict[int, list[int]]:
        """The messages beside which a side message is in context."""
        found: dict[int, list[int]] = {}
        if self._tree.has_sides:
            for index in range(len(self._tree)):
                for side in self._tree.sides(index):
                    found.setdefault(side, []).append(index)
        return found

    @cached_property
    def _beside(self) -> list[int]:
        """All side messages, in order."""
        return sorted(self._owners)

    def added(self, before: int, request: int, context: Container[int]) -> list[int] | None:
        """The messages that `request` has more than `before`, whose context is given; None if it may have fewer."""
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
        owners, beside = self._owners, self._beside
        for side in beside[bisect_left(beside, before) : bisect_left(beside, request)]:
            if any(owner in context for owner in owners[side]):
                yield side
