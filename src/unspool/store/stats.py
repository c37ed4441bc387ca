"""Statistics over sessions: activity, outcomes of calls, tokens and their cost."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..usage.cost import Cost
from ..usage.prices import PriceTable, shipped_prices
from .database import Database, Row
from .filters import Condition, SessionFilter, all_of
from .usage_report import UsageEntry, UsageFilter, UsageReporter, between, date_of, day_of


class Tokens(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Tokens of one model on one day."""

    day: str
    model: str
    replies: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    cost_usd: float | None = None
    """What the API would have charged at list prices; left out if no price of the model is known."""


class Tool(msgspec.Struct, kw_only=True):
    """The number of calls of one tool, and how they ended."""

    name: str
    calls: int
    failed: int
    rejected: int
    interrupted: int


class Day(msgspec.Struct, kw_only=True):
    """Activity on one day."""

    day: str
    sessions: int
    turns: int
    calls: int
    rejections: int
    interruptions: int


class Project(msgspec.Struct, kw_only=True):
    """Activity in one project."""

    path: str
    sessions: int
    turns: int
    rejections: int
    interruptions: int


class Stats(msgspec.Struct, kw_only=True):
    """All statistics."""

    sessions: dict[str, int]
    """The number of main sessions by agent."""
    subagents: int
    messages: int
    events: dict[str, int]
    days: list[Day]
    tools: list[Tool]
    projects: list[Project]
    tokens: list[Tokens]


def compute_stats(
    database: Database, filter: SessionFilter, zone_seconds: int = 0, prices: PriceTable | None = None
) -> Stats:
    """Compute the statistics of the sessions that match. Days begin `zone_seconds` before they do in UTC.

    The times of the filter also limit what is counted in these sessions.
    """
    wanted = UsageFilter(sessions=filter, since=filter.active_since, until=filter.started_before)
    reporter = UsageReporter(database, prices or shipped_prices(), zone_seconds)
    stats = compute_activity(database, filter, zone_seconds)
    stats.tokens = tokens_of(reporter.report(wanted, ("day", "model")).entries)
    return stats


def compute_activity(database: Database, filter: SessionFilter, zone_seconds: int = 0) -> Stats:
    """Compute the same statistics without tokens."""
    return _Counter(database, filter, zone_seconds).all()


class _Counter:
    def __init__(self, database: Database, filter: SessionFilter, zone_seconds: int) -> None:
        self._database = database
        self._filter = filter
        self._zone_seconds = zone_seconds
        # Lists leave out sessions without messages, and the numbers of sessions have to agree.
        self._sessions = msgspec.structs.replace(filter, is_empty=False).condition()
        self._slots = all_of([filter.within("usage_slot.session"), between(filter.active_since, filter.started_before)])
        self._events = all_of([filter.within("event.session"), filter.in_time_range("event.at")])

    def all(self) -> Stats:
        kinds = self._rows("session.kind, session.agent, count(*), sum(session.messages)", "session", self._sessions, 2)
        events = self._rows("event.kind, count(*)", "event", self._events, 1)
        return Stats(
            sessions={agent: int(count) for kind, agent, count, _ in kinds if kind == "main"},
            subagents=sum(int(count) for kind, _, count, _ in kinds if kind == "subagent"),
            messages=sum(int(messages) for *_, messages in kinds),
            events={kind: int(count) for kind, count in events},
            days=self._days(),
            tools=self._tools(),
            projects=self._projects(),
            tokens=[],
        )

    def _rows(self, columns: str, table: str, condition: Condition, groups: int) -> list[Row]:
        """Aggregated rows, grouped by the first columns."""
        group = ", ".join(str(number) for number in range(1, groups + 1))
        sql = f"SELECT {columns} FROM {table} WHERE {condition.sql} GROUP BY {group} ORDER BY {group}"
        return self._database.rows(sql, *condition.values)

    def _days(self) -> list[Day]:
        day = day_of("usage_slot.slot", self._zone_seconds)
        columns = f"{day}, count(DISTINCT usage_slot.session), sum(usage_slot.prompts), sum(usage_slot.calls)"
        counted = self._rows(columns, "usage_slot", self._slots, 1)
        day = day_of("CAST(floor(event.at) AS BIGINT)", self._zone_seconds)
        timed = all_of([Condition(f"{_IS_STOP} AND event.at IS NOT NULL", []), self._events])
        events = {row[0]: row[1:] for row in self._rows(f"{day}, {_STOP_COUNTS}", "event", timed, 1)}
        return [
            Day(
                day=date_of(number),
                sessions=sessions,
                turns=int(turns),
                calls=int(calls),
                rejections=int(events.get(number, (0, 0))[0]),
                interruptions=int(events.get(number, (0, 0))[1]),
            )
            for number, sessions, turns, calls in counted
            if number is not None
        ]

    def _tools(self) -> list[Tool]:
        tools: dict[str, Tool] = {}
        for name, outcome, count in self._outcomes():
            tool = tools.get(name)
            if tool is None:
                tool = tools[name] = Tool(name=name or "?", calls=0, failed=0, rejected=0, interrupted=0)
            tool.calls += count
            tool.failed += count if outcome in ("error", "tool_use_error") else 0
            tool.rejected += count if outcome == "rejected" else 0
            tool.interrupted += count if outcome == "interrupted" else 0
        return sorted(tools.values(), key=lambda tool: (-tool.calls, tool.name))

    def _outcomes(self) -> list[tuple[str, str, int]]:
        """The number of calls by tool and outcome. The sums in `tool_outcome` cannot be filtered by time."""
        filter = self._filter
        if filter.active_since is None and filter.started_before is None:
            where = all_of([filter.within("tool_outcome.session")])
            rows = self._rows("tool, outcome, sum(count)", "tool_outcome", where, 2)
        else:
            calls = Condition("act.kind = 'call'", [])
            where = all_of([filter.within("act.session"), calls, filter.in_time_range("act.at")])
            rows = self._rows("coalesce(act.name, 0), coalesce(act.outcome, ''), count(*)", "act", where, 2)
        names = self._database.names.texts(row[0] for row in rows)
        return [(names.get(tool, ""), outcome, int(count)) for tool, outcome, count in rows]

    def _projects(self) -> list[Project]:
        mains = all_of([self._sessions, Condition("session.kind = 'main'", [])])
        sessions = self._rows("session.project, count(*)", "session", mains, 1)
        turns = self._by_project("sum(usage_slot.prompts)", "usage_slot", self._slots)
        stops = self._by_project(_STOP_COUNTS, "event", all_of([Condition(_IS_STOP, []), self._events]))
        projects = [
            Project(
                path=path or "?",
                sessions=count,
                turns=turns.get(path, [0])[0],
                rejections=stops.get(path, (0, 0))[0],
                interruptions=stops.get(path, (0, 0))[1],
            )
            for path, count in sessions
        ]
        return sorted(projects, key=lambda project: (-project.turns, project.path))

    def _by_project(self, sums: str, table: str, condition: Condition) -> dict[str | None, list[int]]:
        """Sums by project. Grouping by session first avoids sorting, and leaves few rows to join."""
        projects = {int(id): path for id, path in self._database.rows("SELECT id, project FROM session")}
        found: dict[str | None, list[int]] = {}
        for session, *values in self._rows(f"{table}.session, {sums}", table, condition, 1):
            path = projects.get(int(session))
            known = found.get(path, [0] * len(values))
            found[path] = [old + int(new) for old, new in zip(known, values, strict=True)]
        return found


def tokens_of(entries: Iterable[UsageEntry]) -> list[Tokens]:
    """The tokens of each model on each day, from entries by day and model."""
    return [
        Tokens(
            day=entry.day or "",
            model=entry.model or "",
            replies=entry.replies,
            input=entry.tokens.input,
            output=entry.tokens.output,
            cache_read=entry.tokens.cache_read,
            cache_write=entry.tokens.cache_write,
            reasoning=entry.tokens.reasoning,
            cost_usd=entry.cost.usd if entry.cost.is_known else None,
        )
        for entry in entries
    ]


def cost_of_tokens(tokens: Tokens) -> Cost:
    """The cost of the tokens of one model on one day."""
    if tokens.cost_usd is not None:
        return Cost(usd=tokens.cost_usd)
    return Cost(unpriced_tokens=tokens.input + tokens.output + tokens.cache_read + tokens.cache_write)


_STOPS = ("rejection", "interruption")
_IS_STOP = f"event.kind IN {_STOPS}"
_STOP_COUNTS = ", ".join(f"sum(CASE WHEN event.kind = '{kind}' THEN 1 ELSE 0 END)" for kind in _STOPS)
