"""Times, however they are written."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from unspool.core.timestamps import parse_moment

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
