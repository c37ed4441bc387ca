"""Filters on agent, session and day that Spark pushes down. Sessions that they exclude are not read or not sent."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from ..agents import SessionRef
from ..data.source_locations import Key

_COLUMNS = ("agent", "session", "day")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "StringStartsWith": lambda value, start: value.startswith(start),
    "In": lambda value, several: value in several,
}
"""Comparisons by the names of Spark's filter classes."""
_LOWER_BOUNDS = frozenset(("EqualTo", "GreaterThan", "GreaterThanOrEqual", "In"))
_CLOCKS = timedelta(days=1)
"""The maximum difference between the clocks of the machines that write logs and those that store them."""


class _KeyFilter(NamedTuple):
    """A condition on a key column. As in SQL, a null never matches."""

    column: str
    comparison: str
    value: Any

    def match(self, value: object) -> bool:
        """Return whether a value matches."""
        return value is not None and _COMPARISONS[self.comparison](value, self.value)


class KeyFilters:
    """Conditions on the rows of a query. Spark still applies them itself."""

    def __init__(self, filters: Iterable[_KeyFilter] = ()) -> None:
        self._filters = tuple(filters)

    def match(self, key: Key) -> bool:
        """Return whether the rows of a session match."""
        return all(one.match(key[_COLUMNS.index(one.column)]) for one in self._filters)

    def may_match(self, ref: SessionRef) -> bool:
        """Return whether a session that has not been read, or a sub-agent in its log, may match.

        The id of such a sub-agent starts with that of its session.
        """
        for one in self._filters:
            if one.column == "agent" and not one.match(ref.agent):
                return False
            if one.column == "session" and not one.match(ref.id) and not _may_be_inside(one, ref.id):
                return False
        return True

    def excludes_before(self) -> int:
        """Return a time in nanoseconds since 1970; sessions in files that have not changed since cannot match.

        This works because a session starts before its log is last written.
        """
        days = [
            min(one.value) if one.comparison == "In" else one.value
            for one in self._filters
            if one.column == "day" and one.comparison in _LOWER_BOUNDS and one.value
        ]
        if not days:
            return 0
        start = datetime.combine(max(days), datetime.min.time(), UTC)
        return int((start - _CLOCKS).timestamp() * 1e9) if start.year > 1970 else 0


def _may_be_inside(one: _KeyFilter, id: str) -> bool:
    values = one.value if one.comparison == "In" else (one.value,)
    return one.comparison not in ("EqualTo", "In") or any(str(value).startswith(f"{id}/") for value in values)


def make_filters(given: Iterable[Any]) -> KeyFilters:
    """Select the filters of Spark that can be applied here."""
    found = []
    for each in given:
        name, value = type(each).__name__, getattr(each, "value", None)
        path: tuple[str, ...] = getattr(each, "attribute", ())
        column = path[0] if len(path) == 1 else ""
        if name in _COMPARISONS and column in _COLUMNS and _is_usable(column, value):
            found.append(_KeyFilter(column, name, value))
    return KeyFilters(found)


def _is_usable(column: str, value: object) -> bool:
    values = value if isinstance(value, tuple | list) else (value,)
    wanted = date if column == "day" else str
    return all(isinstance(each, wanted) and not isinstance(each, datetime) for each in values)
