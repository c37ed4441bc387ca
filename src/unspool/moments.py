"""Points in time: always with a zone, however the agent wrote them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time that cannot be compared with others by mistake: one without a zone is not taken for it."""

_MILLISECONDS_FROM = 1e11
"""Counted in seconds this would be the year 5138."""


def parse_moment(value: object) -> datetime | None:
    """A time in text, in seconds or in milliseconds; without a zone it is UTC. None when it is no time."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if abs(value) >= _MILLISECONDS_FROM else value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None
