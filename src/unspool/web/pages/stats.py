"""Statistics over all sessions: cost, tokens, activity, rejections and interruptions, tools, projects."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Hashable
from datetime import date, datetime
from typing import NamedTuple, TypeAlias
from urllib.parse import urlencode

from litestar import Response, get
from litestar.di import NamedDependency, Provide
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery
from markupsafe import Markup

from ...core.errors import NotFoundError
from ...core.timestamps import parse_time, zone_seconds
from ...store import Store
from ...store.filters import SessionFilter
from ...store.locate import data_folder
from ...store.stats import Stats, compute_activity, tokens_of
from ...store.usage_report import UsageFilter, parse_dimensions, usage_table
from ...usage.cost import COST_NOTE, dollars
from ...usage.prices import load_prices_if_readable
from .. import charts
from ..recent_cache import RecentCache
from ..templating import render
from ..usage_view import UsageView, usage_report, usage_view
from .layout import Pool, State, html_response, layout_of, progress_of

_PERIODS = (("", "All"), ("today", "Today"), ("7d", "7 days"), ("30d", "30 days"), ("365d", "Year"))
_CACHED = 16
_MOST_PROJECTS = 20


class StatsFilter(NamedTuple):
    """The filter in the address of the page."""

    agent: str | None = None
    project: str | None = None
    model: str | None = None
    after: str | None = None
    before: str | None = None

    def sessions(self) -> SessionFilter:
        """Return the filter for sessions and their events."""
        return SessionFilter(
            agent=self.agent,
            project_contains=self.project,
            active_since=parse_time(self.after),
            started_before=parse_time(self.before),
        )

    def usage(self) -> UsageFilter:
        """Return the filter for tokens."""
        sessions = self.sessions()
        return UsageFilter(
            sessions=sessions, since=sessions.active_since, until=sessions.started_before, model=self.model
        )

    def address(self, page: str = "/stats", **changes: str) -> str:
        """Return the address of a page with this filter and some changes."""
        values = {**self._asdict(), **changes}
        query = urlencode({name: value for name, value in values.items() if value})
        return f"{page}?{query}" if query else page

    def of_days(self, first: date, after: date) -> str:
        """Return the address of the sessions from one day up to, but not including, another."""
        return self.address(after=first.isoformat(), before=after.isoformat()) + "#top-sessions"


class Chart(NamedTuple):
    """A chart. The table with its numbers is loaded on demand."""

    name: str
    drawing: Markup
    table: str = ""
    """The address of the same numbers as a table."""


class Table(NamedTuple):
    """The numbers of a chart."""

    columns: tuple[str, ...]
    rows: list[tuple[str | int, ...]]
    links: list[str]
    """The link of each row; empty if it has none."""


# --- routes ----------------------------------------------------------------------------------------------------------


def _filter(
    agent: FromQuery[str | None] = None,
    project: FromQuery[str | None] = None,
    model: FromQuery[str | None] = None,
    after: FromQuery[str | None] = None,
    before: FromQuery[str | None] = None,
) -> StatsFilter:
    return StatsFilter(*(value or None for value in (agent, project, model, after, before)))


Filter: TypeAlias = NamedDependency[StatsFilter]
_FILTERED = {"filter": Provide(_filter, sync_to_thread=False)}


@get("/stats", include_in_schema=False, dependencies=_FILTERED)
async def stats(pool: Pool, app_state: State, filter: Filter) -> Response[str]:
    """The statistics page."""
    return html_response(await pool.run(_page, filter, progress_of(app_state)))


@get("/stats/tables/{name:str}", include_in_schema=False, dependencies=_FILTERED)
async def table(pool: Pool, name: FromPath[str], filter: Filter) -> Response[str]:
    """The numbers of one chart."""
    return html_response(await pool.run(_table, filter, name))


@get("/stats/usage.csv", include_in_schema=False, dependencies=_FILTERED)
async def usage_csv(pool: Pool, filter: Filter, by: FromQuery[str] = "day,agent,project,model") -> Response[str]:
    """Tokens and cost as a CSV file for spreadsheets."""
    headers = {"content-disposition": 'attachment; filename="usage.csv"'}
    return Response(await pool.run(_csv, filter, by), media_type="text/csv; charset=utf-8", headers=headers)


routes: list[HTTPRouteHandler] = [stats, table, usage_csv]


def _csv(store: Store, filter: StatsFilter, by: str) -> str:
    header, rows = usage_table(usage_report(store, filter.usage(), parse_dimensions(by)))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def _harmless(cell: str | int) -> str | int:
    """Escape text that a spreadsheet would interpret as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


# --- the page --------------------------------------------------------------------------------------------------------


def _page(store: Store, filter: StatsFilter, progress: tuple[int, int] | None) -> str:
    found, usage = _count(store, filter)
    view = {
        "filter": filter._asdict(),
        "periods": [
            (filter.address(after=value, before=""), words, (filter.after or "") == value and not filter.before)
            for value, words in _PERIODS
        ],
        "csv": filter.address("/stats/usage.csv"),
        "all": filter._replace(project=None).address("/"),
        "json": filter.address("/api/usage", by="day,agent,project,model"),
        "numbers": _numbers(found, usage),
        "charts": _charts(found, usage, filter),
        "usage": usage,
        "note": COST_NOTE,
        "models": [(line, filter.address(model=line.name)) for line in usage.models],
        "projects": [(line, filter.address(project=line.name)) for line in usage.projects[:_MOST_PROJECTS]],
        "more_projects": max(0, len(usage.projects) - _MOST_PROJECTS),
        "agents": [(line, filter.address(agent=line.name)) for line in usage.agents],
        "activity": [(p.path, p.sessions, p.turns, p.rejections, p.interruptions) for p in found.projects],
    }
    return render("stats.html", layout=layout_of(store, "stats", progress), view=view)


_counted: RecentCache[Hashable, tuple[Stats, UsageView]] = RecentCache(_CACHED)
"""Results by everything they depend on: nothing is counted again until something changes."""


def _count(store: Store, filter: StatsFilter) -> tuple[Stats, UsageView]:
    prices, zone = load_prices_if_readable(data_folder()), zone_seconds()
    key = (store.location, store.changes.last_seq(), filter, _minute(filter), zone, prices)
    return _counted.get(
        key, lambda: (compute_activity(store.database, filter.sessions(), zone), usage_view(store, filter.usage()))
    )


def _minute(filter: StatsFilter) -> datetime | None:
    """Return the current minute for filters that depend on the time, and None for others."""
    is_relative = any(value and not value[:4].isdecimal() for value in (filter.after, filter.before))
    return datetime.now().astimezone().replace(second=0, microsecond=0) if is_relative else None


def _numbers(found: Stats, usage: UsageView) -> list[tuple[str, str, str]]:
    """Return the most important numbers: shortened, in full, and their labels."""
    tokens = usage.total.tokens
    counts = [
        (sum(found.sessions.values()), "sessions"),
        (found.subagents, "sub-agents"),
        (sum(day.turns for day in found.days), "turns"),
        (sum(tool.calls for tool in found.tools), "tool calls"),
        (found.events.get("rejection", 0), "rejected"),
        (found.events.get("interruption", 0), "interrupted"),
        (usage.total.replies, "replies"),
        (tokens.input, "input tokens"),
        (tokens.output, "output tokens"),
        (tokens.cache_read, "read from cache"),
        (tokens.cache_write, "written to cache"),
    ]
    cost = (usage.total_cost, "what the API would have charged", "at list prices")
    return [*((charts.compact(count), f"{count:,}", words) for count, words in counts), cost]


def _charts(found: Stats, usage: UsageView, filter: StatsFilter) -> list[Chart]:
    link = filter.of_days
    today = datetime.now().astimezone().date()
    costs = [charts.DayCost(entry.day or "", entry.model or "", entry.cost) for entry in usage.days]
    drawings = {
        "cost": charts.cost_chart(costs, link),
        "tokens": charts.token_chart(tokens_of(usage.days), link),
        "activity": charts.activity_chart(found.days, link),
        "stops": charts.stop_chart(found.days, link),
        "tools": charts.tool_chart(found.tools),
    }
    year = [] if filter.after or filter.before else [Chart("Last year", charts.heatmap(found.days, today, link))]
    return [
        *year,
        *(Chart(_TITLES[key], drawing, filter.address(f"/stats/tables/{key}")) for key, drawing in drawings.items()),
    ]


_TITLES = {
    "cost": "Cost",
    "tokens": "Tokens",
    "activity": "Activity",
    "stops": "Rejections and interruptions",
    "tools": "Tools",
}


# --- tables ----------------------------------------------------------------------------------------------------------


def _table(store: Store, filter: StatsFilter, name: str) -> str:
    find = _TABLES.get(name)
    if find is None:
        raise NotFoundError(f"Unknown table {name!r}; choose from {', '.join(_TABLES)}.")
    return render("stats_table.html", table=find(*_count(store, filter), filter), title=_TITLES[name])


def _cost_table(_: Stats, usage: UsageView, filter: StatsFilter) -> Table:
    rows: list[tuple[str | int, ...]] = [(e.day or "", e.model or "", dollars(e.cost)) for e in usage.days]
    return Table(("Day", "Model", "Cost"), rows, [_day_link(entry.day or "", filter) for entry in usage.days])


def _token_table(_: Stats, usage: UsageView, filter: StatsFilter) -> Table:
    columns = ("Day", "Model", "Replies", "Input", "Output", "Cache read", "Cache write", "Reasoning")
    tokens = tokens_of(usage.days)
    rows: list[tuple[str | int, ...]] = [
        (t.day, t.model, t.replies, t.input, t.output, t.cache_read, t.cache_write, t.reasoning) for t in tokens
    ]
    return Table(columns, rows, [_day_link(entry.day, filter) for entry in tokens])


def _activity_table(found: Stats, _: UsageView, filter: StatsFilter) -> Table:
    rows: list[tuple[str | int, ...]] = [(day.day, day.sessions, day.turns, day.calls) for day in found.days]
    return Table(("Day", "Sessions", "Turns", "Calls"), rows, [_day_link(day.day, filter) for day in found.days])


def _stop_table(found: Stats, _: UsageView, filter: StatsFilter) -> Table:
    rows: list[tuple[str | int, ...]] = [(day.day, day.rejections, day.interruptions) for day in found.days]
    return Table(("Day", "Rejected", "Interrupted"), rows, [_day_link(day.day, filter) for day in found.days])


def _tool_table(found: Stats, _: UsageView, __: StatsFilter) -> Table:
    rows: list[tuple[str | int, ...]] = [
        (tool.name, tool.calls, tool.failed, tool.rejected, tool.interrupted) for tool in found.tools
    ]
    links = [f"/search?{urlencode({'q': f'tool:{tool.name}'})}" for tool in found.tools]
    return Table(("Tool", "Calls", "Failed", "Rejected", "Interrupted"), rows, links)


_TABLES: dict[str, Callable[[Stats, UsageView, StatsFilter], Table]] = {
    "cost": _cost_table,
    "tokens": _token_table,
    "activity": _activity_table,
    "stops": _stop_table,
    "tools": _tool_table,
}


def _day_link(day: str, filter: StatsFilter) -> str:
    if not charts.is_date(day):
        return ""
    first = date.fromisoformat(day)
    return filter.of_days(first, date.fromordinal(min(first.toordinal() + 1, date.max.toordinal())))
