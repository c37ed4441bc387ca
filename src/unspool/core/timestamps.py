"""Parses times. The results always have a time zone, however the agent wrote them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated

import msgspec

from .errors import UsageError

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with a zone. msgspec rejects times without one, because they cannot be compared with the others."""

_MILLISECONDS_FROM = 1e11
"""Numbers from here on are milliseconds: as seconds, this would be the year 5138."""
_AGO = re.compile(r"([0-9]{1,9})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_moment(value: object) -> datetime | None:
    """Parse a time given as text, seconds or milliseconds; without a zone it is UTC. None if it is not a time."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            # Raises if the time would be out of Python's range in UTC.
            moment.astimezone(UTC)
            return moment
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if abs(value) >= _MILLISECONDS_FROM else value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def from_seconds(seconds: float) -> datetime:
    """Convert seconds since 1970 to a time in UTC, clamped to the years that datetime supports.

    A recorded time may be outside of them: in UTC if it has another zone, or because seconds are rounded.
    """
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return (datetime.max if seconds > 0 else datetime.min).replace(tzinfo=UTC)


def shifted(moment: datetime, by: timedelta) -> datetime:
    """Return a time moved by a difference, in UTC and clamped to the years that datetime supports.

    A log may have any time, also one so close to the first or last year that adding to it would raise.
    """
    try:
        return moment.astimezone(UTC) + by
    except OverflowError:
        return from_seconds(moment.timestamp() + by.total_seconds())


def parse_time(text: str | None, now: datetime | None = None) -> datetime | None:
    """Parse a time that a user wrote: a date, a time, `today`, `yesterday`, or how long ago (7d, 12h, 30m, 2w).

    Without a zone it is the user's local time, not UTC as in a log.
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
        raise UsageError(f"{text!r} is not a time; try 2026-11-01, 2026-11-01T14:30, 7d, 12h, today") from None


def zone_seconds() -> int:
    """Return the offset of the user's time zone from UTC, in seconds."""
    offset = datetime.now().astimezone().utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0


def _midnight(day: date) -> datetime:
    """Return the start of a day in the user's zone, with the offset on that day, which may differ from today's."""
    return datetime.combine(day, time()).astimezone()
