"""Contexts as intervals: the first and last response that had a message in context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..core.context import ContextMap
from ..core.context_growth import ContextGrowth
from ..core.tree import Tree

Interval = tuple[int, int, int, int]
"""A message, the first and last of the consecutive responses that had it in context, and their number."""


def find_intervals(contexts: ContextMap, tree: Tree, requests: Sequence[int]) -> Iterator[Interval]:
    """Yield all intervals, in the order in which they end. `requests` are the first messages of responses, in order."""
    growth = ContextGrowth(contexts, tree)
    since: dict[int, int] = {}
    for position, request in enumerate(requests):
        added = growth.added(requests[position - 1], request, since) if position else None
        if added is None:
            current = contexts.before(request).indices
            for message in since.keys() - set(current):
                start = since.pop(message)
                yield message, requests[start], requests[position - 1], position - start
            added = current
        for message in added:
            since.setdefault(message, position)
    count = len(requests)
    for message, start in since.items():
        yield message, requests[start], requests[-1], count - start
