"""Gaps in a log: messages whose recorded parent is missing.

An agent that loads such a session follows the chain of parents up to the gap and does not see what came before. An
agent that kept running still has it in context; only the log has lost a line. The next request shows which of the two
happened: if it has more input tokens than the text since the gap can have, it included earlier messages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from . import model as m

_MARGIN = 10_000
"""Tokens by which the instructions for the model may have grown since the first request."""


def request_tokens(usage: m.Usage) -> int:
    """Return the input tokens of a request."""
    return (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0)


def find_ends(
    gaps: Sequence[int], billed: Callable[[], Mapping[int, int]], lengths_of: Callable[[], Sequence[int]]
) -> frozenset[int]:
    """Return the gaps at which the context starts over.

    `billed` returns the input tokens by the first message of each response, and `lengths_of` the bytes of the messages.
    A token has at least one byte. The first request, like every other, contains the instructions for the model.
    """
    if not gaps:
        return frozenset()
    requests, lengths = billed(), lengths_of()
    firsts = sorted(requests)
    ends = set()
    for gap in gaps:
        position = bisect_left(firsts, gap)
        if 0 < position < len(firsts):
            after = firsts[position]
            most = requests[firsts[0]] + sum(lengths[gap:after]) + _MARGIN
            if requests[after] > most:
                continue
        ends.add(gap)
    return frozenset(ends)
