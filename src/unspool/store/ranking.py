"""The order of search results: which of two texts counts more.

Text by people and models counts more than tool output, and new text more than old: a text loses half of its weight in
thirty days. Weight can therefore be expressed as time: text by a person counts as much as output that is 48 days newer.
So the rank of a text is a point in time, which depends neither on the query nor on today's date, and an index in this
order has the best matches first.

A session has the rank of its best match. Up to two further matches that are nearly as good add six hours each: enough
to put a session about a topic before one that only mentions it, and so little that few matches have to be read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .indexed_text import FIELDS, Field

_WEIGHTS: dict[Field, float] = {"user": 3.0, "answer": 2.0, "input": 1.2, "output": 1.0, "thinking": 0.8, "note": 0.6}
_HALF_LIFE = 30 * 86400
"""The age, in seconds, at which a text counts half."""
_MOST_HALF_LIVES = 1000
"""Limits the weight of texts from the future: a log may claim that it was written in the year 9999."""
_SHIFTS = tuple(round(_HALF_LIFE * math.log2(_WEIGHTS[field])) for field in FIELDS)
_BONUS = 6 * 3600
_MOST_BONUSES = 2
COUNTED = 1 + _MOST_BONUSES
"""The number of matches that count towards the rank of a session."""
_NEARLY = _MOST_BONUSES * _BONUS
"""A further match counts if its rank is less than this below the best one."""
_FIRST = 1_704_067_200
"""The start of 2024, before the first agent. All older texts have rank 0, which keeps the numbers small."""
_BUCKET_SECONDS = 4096
"""Ranks within about an hour share a bucket."""
_SEQUENCE_BITS = 19
BUCKET_IDS = 1 << _SEQUENCE_BITS
"""The number of ids in a bucket."""


def rank(field: int, at: int | None) -> int:
    """The rank of a text: higher is better. A text of unknown time comes last."""
    return max(0, at + _SHIFTS[field] - _FIRST) if at is not None else 0


def bucket(field: int, at: int | None) -> int:
    """The part of the index that a text belongs to."""
    return rank(field, at) // _BUCKET_SECONDS


def bucket_of(id: int) -> int:
    """The bucket of an id that was allocated for it."""
    return id >> _SEQUENCE_BITS


def first_id(bucket: int) -> int:
    """The first id of a bucket."""
    return bucket << _SEQUENCE_BITS


def outdated_sql() -> str:
    """A condition for rows of `part` that were written by versions whose ids were not in the order of ranks.

    Their ids are low numbers, which now belong to texts of unknown time or from the first months of 2024.
    """
    last = _FIRST + 90 * 86400
    return f"part.id < {first_id(bucket(FIELDS.index('note'), last))} AND part.at >= {2 * last - _FIRST}"


def first_rank(bucket: int) -> int:
    """The lowest rank in a bucket."""
    return bucket * _BUCKET_SECONDS


def session_rank(ranks: Sequence[int]) -> int:
    """The rank of a session with some matches, given in descending order."""
    further = sum(1 for rank in ranks[1:COUNTED] if rank > ranks[0] - _NEARLY)
    return ranks[0] + further * _BONUS


def is_settled(best: int, below: int) -> bool:
    """Whether the rank of a session is final once all matches with a rank of at least `below` have been read."""
    return best >= below + _NEARLY


def highest_unsettled(below: int) -> int:
    """A rank that no session can reach whose rank is not final."""
    return below + 2 * _NEARLY


def first_id_sql() -> str:
    """The first id of the bucket of a row of `part`, for databases whose ids are not in the order of ranks."""
    shift = " ".join(f"WHEN {field} THEN {shift}" for field, shift in enumerate(_SHIFTS))
    rank = f"greatest(0, part.at + CASE part.field {shift} END - {_FIRST})"
    return f"coalesce({rank} / {_BUCKET_SECONDS}, 0) * {BUCKET_IDS}"


def score(rank: int, now: float) -> float:
    """The weight that a rank means at a time: that of the text, halved for each half-life since it was written."""
    return float(0.5 ** max(-_MOST_HALF_LIVES, (now - _FIRST - rank) / _HALF_LIFE))
