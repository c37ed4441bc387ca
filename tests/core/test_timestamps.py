"""Times, however they are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from unspool.core.timestamps import parse_moment, shifted

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "2026-03-01T09:00:00Z",
        "2026-03-01T10:00:00+01:00",
        "2026-03-01 09:00:00",
        1772355600,
        1772355600.0,
        1772355600000,
    ],
)
def test_times(value: object) -> None:
    """Text, seconds and milliseconds; without a zone it is UTC."""
    assert parse_moment(value) == NINE


@pytest.mark.parametrize("value", [None, "", "soon", True, [], {}, float("nan"), float("inf"), 10**30, "9999-99-99"])
def test_invalid_timestamps(value: object) -> None:
    """None, never an error."""
    assert parse_moment(value) is None


FIRST, LAST = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))
SECOND = timedelta(seconds=1)
AHEAD, BEHIND = timezone(timedelta(hours=1)), timezone(timedelta(hours=-1))


@pytest.mark.parametrize(
    ("moment", "by", "expected"),
    [
        (NINE, SECOND, datetime(2026, 3, 1, 9, 0, 1, tzinfo=UTC)),
        (NINE, -SECOND, datetime(2026, 3, 1, 8, 59, 59, tzinfo=UTC)),
        (NINE.astimezone(AHEAD), -SECOND, datetime(2026, 3, 1, 8, 59, 59, tzinfo=UTC)),
        (FIRST, SECOND, FIRST + SECOND),
        (FIRST, -SECOND, FIRST),
        (LAST, SECOND, LAST),
        (LAST, -SECOND, LAST - SECOND),
        (FIRST.replace(tzinfo=AHEAD), SECOND, FIRST),
        (FIRST.replace(tzinfo=AHEAD), 2 * timedelta(hours=1), FIRST + timedelta(hours=1)),
        (LAST.replace(tzinfo=BEHIND), -SECOND, LAST),
        (NINE, timedelta.max, LAST),
        (NINE, timedelta.min, FIRST),
    ],
)
def test_shifted_times_are_clamped(moment: datetime, by: timedelta, expected: datetime) -> None:
    """In UTC, and within the years that Python supports, also if the time is outside of them in UTC."""
    found = shifted(moment, by)
    assert (found, found.tzinfo) == (expected, UTC)
