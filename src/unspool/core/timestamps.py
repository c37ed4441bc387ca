"""Points in time: always with a zone, however the agent wrote them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated

import msgspec

from .errors import UsageError

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time that cannot be compared with others by mistake: one without a zone is not taken for it."""

_MILLISECONDS_FROM = 1e11
"""Counted in seconds this would be the year 5138."""
_AGO = re.compile(r"([0-9]{1,9})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_moment(value: object) -> datetime | None:
    """A time in text, in seconds or in milliseconds; without a zone it is UTC. None if it is not a time."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            # Raises where the time would be out of Python's range in another zone.
            moment.astimezone(UTC)
            return moment
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if abs(value) >= _MILLISECONDS_FROM else value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def parse_time(text: str | None, now: datetime | None = None) -> datetime | None:
    """What a user writes for a time: a date, a time, `today`, `yesterday`, or how long ago (7d, 12h, 30m, 2w).

    Without a zone it is the user's own time, not UTC as in a log.
    """
    if not text:
        return None
    word = text.strip().lower()
    now = (now or datetime.now(UTC)).astimezone()
    try:
        if ago := _AGO.fullmatch(word):
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        if word in ("today", "yesterday"):
            return _midnight(now.date() - timedelta(days=word == "yesterday"))
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{text!r} is no time; try 2026-11-01, 2026-11-01T14:30, 7d, 12h, today") from None


def zone_seconds() -> int:
    """How far the user's clock is ahead of UTC."""
    offset = datetime.now().astimezone().utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0


def _midnight(day: date) -> datetime:
    """When a day begins here. The zone's offset is that of the day, which need not be today's."""
    return datetime.combine(day, time()).astimezone()
