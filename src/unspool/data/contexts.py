"""Contexts as intervals: from which response to which a message was in the model's context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..core.context import ContextMap
from ..core.context_growth import ContextGrowth
from ..core.tree import Tree


class Interval(NamedTuple):
    """Consecutive responses that had a message in context."""

    message: int
    first: int
    last: int
    requests: int


def find_intervals(contexts: ContextMap, tree: Tree, requests: Sequence[int]) -> Iterator[Interval]:
    """All intervals, in the order in which they end. `requests` are the first messages of responses, in order."""
    growth = ContextGrowth(contexts, tree)
    since: dict[int, int] = {}
    for position, request in enumerate(requests):
        added = growth.added(requests[position - 1], request, since) if position else None
        if added is None:
            current = contexts.before(request).indices
            for message in since.keys() - set(current):
                yield _interval(message, requests, since.pop(message), position)
            added = current
        for message in added:
            since.setdefault(message, position)
    for message, start in since.items():
        yield _interval(message, requests, start, len(requests))


def _interval(message: int, requests: Sequence[int], start: int, end: int) -> Interval:
    return Interval(message, requests[start], requests[end - 1], end - start)
