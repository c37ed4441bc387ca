"""Tokens and their cost: by day, week or month, by agent, project, model and session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Literal, NamedTuple, get_args

import msgspec

from ..core.errors import UsageError
from ..usage.cost import TOKEN_NAMES, Cost, TokenCount, cost_of
from ..usage.prices import PriceTable
from .database import Database, Row
from .filters import Condition, SessionFilter, all_of
from .usage_rows import NO_SLOT, SLOT_SECONDS

Dimension = Literal["day", "week", "month", "agent", "project", "model", "plan", "session"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
_COLUMNS: dict[Dimension, str] = {
    "agent": "session.agent",
    "project": "session.project",
    "plan": "session.plan",
    "session": "session.name",
}
"""The columns of dimensions. The others follow from the day and the model, which the price depends on."""
_OF_MODEL = "usage_slot.model IN (SELECT id FROM name WHERE text = ?)"
UNKNOWN = "?"
"""The model, day or project of tokens for which none is recorded."""
_DAY_0 = date(1970, 1, 1)


class UsageFilter(msgspec.Struct, kw_only=True, frozen=True):
    """A filter for tokens. Times are rounded down to a quarter of an hour."""

    sessions: SessionFilter = SessionFilter()
    since: datetime | None = None
    until: datetime | None = None
    model: str | None = None

    def condition(self) -> Condition:
        """The filter as SQL over the table `usage_slot`."""
        model = Condition(_OF_MODEL, [self.model]) if self.model else None
        return all_of([self.sessions.within("usage_slot.session"), between(self.since, self.until), model])


class UsageEntry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The tokens of one group, such as a day or a model, and their cost. Dimensions not requested are unset."""

    day: str | None = None
    week: str | None = None
    """The date of its Monday."""
    month: str | None = None
    agent: str | None = None
    project: str | None = None
    model: str | None = None
    plan: str | None = None
    """The subscription that was used; `?` if the log names none."""
    session: str | None = None
    replies: int
    tokens: TokenCount
    cost: Cost

    def add(self, other: UsageEntry) -> None:
        """Add another entry."""
        self.replies += other.replies
        self.tokens.add(other.tokens)
        self.cost.add(other.cost)

    def key(self, by: Iterable[Dimension]) -> list[str]:
        """The values of its dimensions."""
        return [getattr(self, name) or "" for name in by]


class UsageReport(msgspec.Struct, kw_only=True):
    """Tokens by group, and the sum of all of them."""

    by: list[Dimension]
    entries: list[UsageEntry]
    total: UsageEntry
    unpriced_models: list[str]
    """Models without a known price. Their tokens are counted, but are not in any cost."""
    price_source: str
    prices_checked: date | None
    """When the prices that come with unspool were last compared with the providers' pages."""


class _Counted(NamedTuple):
    """Tokens with the same price."""

    day: str
    model: str
    size: int
    dimensions: dict[Dimension, str]
    replies: int
    tokens: TokenCount


class UsageReporter:
    """Adds up stored tokens. Days begin `zone_seconds` before they do in UTC."""

    def __init__(self, database: Database, prices: PriceTable, zone_seconds: int = 0) -> None:
        self._database = database
        self._prices = prices
        self._zone_seconds = zone_seconds

    def report(self, filter: UsageFilter, by: Sequence[Dimension]) -> UsageReport:
        """Report the usage in groups, sorted by the values of their dimensions."""
        entries: dict[tuple[str, ...], UsageEntry] = {}
        total = UsageEntry(replies=0, tokens=TokenCount(), cost=Cost())
        unpriced: set[str] = set()
        for counted in self._counted(filter, by):
            cost = cost_of(self._prices, counted.model, _price_day(counted.day), counted.tokens, counted.size)
            if cost.unpriced_tokens:
                unpriced.add(counted.model)
            values = {name: _value(name, counted) for name in by}
            key = tuple(values.values())
            entry = entries.get(key)
            if entry is None:
                entry = entries[key] = UsageEntry(replies=0, tokens=TokenCount(), cost=Cost(), **values)
            for one in (entry, total):
                one.replies += counted.replies
                one.tokens.add(counted.tokens)
                one.cost.add(cost)
        return UsageReport(
            by=list(by),
            entries=[entries[key] for key in sorted(entries)],
            total=total,
            unpriced_models=sorted(unpriced),
            price_source=self._prices.source,
            prices_checked=self._prices.checked,
        )

    def _counted(self, filter: UsageFilter, by: Iterable[Dimension]) -> Iterable[_Counted]:
        where, values = filter.condition()
        asked = [name for name in by if name in _COLUMNS]
        columns = [day_of("usage_slot.slot", self._zone_seconds), "usage_slot.model", "usage_slot.size"]
        columns += [_COLUMNS[name] for name in asked]
        groups = ", ".join(str(number) for number in range(1, len(columns) + 1))
        sums = ", ".join(f"sum(usage_slot.{name})" for name in TOKEN_NAMES)
        joined = "JOIN session ON session.id = usage_slot.session" if asked else ""
        sql = f"""SELECT {", ".join(columns)}, sum(usage_slot.replies), {sums} FROM usage_slot {joined}
            WHERE usage_slot.count > usage_slot.prompts + usage_slot.calls AND {where} GROUP BY {groups}"""
        rows = self._database.rows(sql, *values)
        # Faster than a join for each row.
        names = self._database.names.texts(row[1] for row in rows)
        for row in rows:
            yield _row(row, asked, names)


def _row(row: Row, asked: list[Dimension], names: dict[int, str]) -> _Counted:
    day, model, size, *rest = row
    dimensions = {name: str(value or UNKNOWN) for name, value in zip(asked, rest, strict=False)}
    replies, *counts = map(int, rest[len(asked) :])
    return _Counted(date_of(day), names.get(model) or UNKNOWN, int(size), dimensions, replies, TokenCount(*counts))


def _value(name: Dimension, counted: _Counted) -> str:
    if name == "model":
        return counted.model
    if name in ("day", "week", "month"):
        return _period(name, counted.day)
    return counted.dimensions[name]


def _period(name: Dimension, day: str) -> str:
    if day == UNKNOWN or name == "day":
        return day
    if name == "month":
        return day[:7]
    parsed = date.fromisoformat(day)
    return (parsed - timedelta(days=min(parsed.weekday(), parsed.toordinal() - 1))).isoformat()


def _price_day(day: str) -> date:
    """The day whose prices apply: today for tokens without a time."""
    return date.today() if day == UNKNOWN else date.fromisoformat(day)


def parse_dimensions(text: str) -> list[Dimension]:
    """Parse the names of dimensions, separated by commas. Duplicates are dropped."""
    words = list(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in words:
        if word not in DIMENSIONS:
            raise UsageError(f"Cannot group by {word!r}; choose from {', '.join(DIMENSIONS)}, separated by commas")
    return [name for word in words for name in DIMENSIONS if name == word]


def grouped(entries: Iterable[UsageEntry], by: Sequence[Dimension]) -> dict[tuple[str, ...], UsageEntry]:
    """Entries added up by fewer dimensions than they have."""
    found: dict[tuple[str, ...], UsageEntry] = {}
    for entry in entries:
        key = tuple(entry.key(by))
        group = found.get(key)
        if group is None:
            values = dict(zip(by, key, strict=True))
            group = found[key] = UsageEntry(replies=0, tokens=TokenCount(), cost=Cost(), **values)
        group.add(entry)
    return {key: found[key] for key in sorted(found)}


def usage_table(report: UsageReport) -> tuple[list[str], list[list[str | int]]]:
    """A report as a header and rows, for CSV. The cost is empty if no price is known."""
    rows: list[list[str | int]] = []
    for entry in report.entries:
        cost = f"{entry.cost.usd:.6f}" if entry.cost.is_known else ""
        counts = [getattr(entry.tokens, name) for name in TOKEN_NAMES]
        rows.append([*entry.key(report.by), entry.replies, *counts, cost, entry.cost.unpriced_tokens])
    return [*report.by, "replies", *TOKEN_NAMES, "cost_usd", "unpriced_tokens"], rows


# --- time ------------------------------------------------------------------------------------------------------------


def between(since: datetime | None, until: datetime | None) -> Condition | None:
    """SQL for the slots in a time range, which excludes rows without a time; None without a range."""
    found = []
    if since is not None:
        found.append(Condition("usage_slot.slot >= ?", [_slot(since)]))
    if until is not None:
        found.append(Condition("usage_slot.slot < ?", [_slot(until)]))
    return all_of([*found, Condition("usage_slot.slot <> ?", [NO_SLOT])]) if found else None


def _slot(moment: datetime) -> int:
    return int(moment.timestamp() // SLOT_SECONDS * SLOT_SECONDS)


def day_of(column: str, zone_seconds: int) -> str:
    """SQL for the number of a slot's day, counted from 1970; NULL if the time is unknown.

    It is one of the days that Python supports, because a recorded time may be outside of them in some zone.
    """
    first, last = ((day - _DAY_0).days for day in (date.min, date.max))
    day = f"CAST(floor(({column} + {int(zone_seconds)}) / 86400.0) AS BIGINT)"
    return f"""CASE WHEN {column} = {NO_SLOT} THEN NULL WHEN {day} < {first} THEN {first}
        WHEN {day} > {last} THEN {last} ELSE {day} END"""


def date_of(number: int | None) -> str:
    """The date of a day, given by its number."""
    return UNKNOWN if number is None else (_DAY_0 + timedelta(days=int(number))).isoformat()
