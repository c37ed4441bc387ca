"""Tokens and cost on the statistics page: by day, model, project and agent, and the most expensive sessions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from ..core.timestamps import zone_seconds
from ..store import Store
from ..store.filters import SessionFilter
from ..store.locate import data_folder
from ..store.rows import SessionRow
from ..store.session_usage import SessionUsage, TurnUsage, session_usage, turn_usage, turn_usage_at
from ..store.usage_report import Dimension, UsageEntry, UsageFilter, UsageReport, UsageReporter, grouped
from ..usage.cost import TokenCount, dollars
from ..usage.prices import load_prices_if_readable
from .session_query import SessionQuery

MOST_SESSIONS = 20
MOST_TURNS = 1_000
"""Maximum number of turns on the page of a session's usage."""
_CANDIDATES = 1000
"""The number of sessions whose exact cost is computed."""


class UsageLine(NamedTuple):
    """A row of a table."""

    name: str
    replies: int
    tokens: TokenCount
    cost: str


class TopSession(NamedTuple):
    """A session and its usage in the selected period."""

    row: SessionRow
    tokens: TokenCount
    cost: str


class UsageView(msgspec.Struct, kw_only=True):
    """Tokens and cost in the selected period."""

    total: UsageEntry
    total_cost: str
    days: list[UsageEntry]
    """By day and model."""
    models: list[UsageLine]
    projects: list[UsageLine]
    agents: list[UsageLine]
    plans: list[UsageLine]
    """By subscription plan; empty if no plan is known."""
    sessions: list[TopSession]
    unpriced_models: list[str]
    price_source: str
    prices_checked: str


def usage_report(store: Store, filter: UsageFilter, by: Iterable[Dimension]) -> UsageReport:
    """Return tokens in groups, with the user's prices and time zone."""
    return UsageReporter(store.database, load_prices_if_readable(data_folder()), zone_seconds()).report(
        filter, list(by)
    )


def usage_of(query: SessionQuery) -> SessionUsage:
    """Return the usage of a session and its sub-agents."""
    store = query.store
    return session_usage(store.database, store.sessions, load_prices_if_readable(data_folder()), query.row)


def turn_at(query: SessionQuery, index: int) -> TurnUsage | None:
    """Return the usage of the turn that a message belongs to; None if it made no request."""
    return turn_usage_at(query.store.database, load_prices_if_readable(data_folder()), query.row.id, index)


def costliest_turns(query: SessionQuery) -> tuple[list[TurnUsage], int]:
    """Return the most expensive turns of a session, in the order of the log, and how many others there are."""
    turns = turn_usage(query.store.database, load_prices_if_readable(data_folder()), query.row.id)
    if len(turns) <= MOST_TURNS:
        return turns, 0
    order = sorted(range(len(turns)), key=lambda number: (-turns[number].cost.usd, -turns[number].tokens.total))
    return [turns[number] for number in sorted(order[:MOST_TURNS])], len(turns) - MOST_TURNS


def usage_view(store: Store, filter: UsageFilter) -> UsageView:
    """Return the tokens and cost that the page shows."""
    report = usage_report(store, filter, ("day", "model", "project", "agent", "plan"))
    by_day = list(grouped(report.entries, ("day", "model")).values())
    plans = _lines(report, "plan")
    return UsageView(
        total=report.total,
        total_cost=dollars(report.total.cost),
        days=by_day,
        models=_lines(report, "model"),
        projects=_lines(report, "project"),
        agents=_lines(report, "agent"),
        plans=plans if any(line.name != "?" for line in plans) else [],
        sessions=_top(store, filter),
        unpriced_models=report.unpriced_models,
        price_source=report.price_source,
        prices_checked=report.prices_checked.isoformat() if report.prices_checked else "",
    )


def _lines(report: UsageReport, name: Dimension) -> list[UsageLine]:
    """Return the sums of one dimension, the most expensive first."""
    order = sorted(grouped(report.entries, (name,)).items(), key=lambda item: (*_costliest(item[1]), item[0]))
    return [UsageLine(key[0], line.replies, line.tokens, dollars(line.cost)) for key, line in order]


def _costliest(entry: UsageEntry) -> tuple[float, int]:
    return -entry.cost.usd, -entry.tokens.total


def _top(store: Store, filter: UsageFilter) -> list[TopSession]:
    """Return the most expensive sessions, without the usage of their sub-agents."""
    ids = tuple(store.usage.largest(filter.condition(), _CANDIDATES))
    rows = {row.name: row for row in store.sessions.select(SessionFilter(ids=ids))} if ids else {}
    within = UsageFilter(sessions=SessionFilter(ids=ids), since=filter.since, until=filter.until, model=filter.model)
    entries = sorted(usage_report(store, within, ("session",)).entries, key=_costliest)
    return [
        TopSession(row, entry.tokens, dollars(entry.cost))
        for entry in entries[:MOST_SESSIONS]
        if (row := rows.get(entry.session or "")) is not None
    ]
