"""Statistics over sessions: activity, outcomes of calls, and tokens."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import msgspec

from .database import Database
from .filters import SessionFilter


class Tokens(msgspec.Struct, kw_only=True):
    """Tokens of one model on one day."""

    day: str
    model: str
    replies: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int


class Tool(msgspec.Struct, kw_only=True):
    """How the calls of one tool ended."""

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


def compute_stats(database: Database, filter: SessionFilter, zone_seconds: int = 0) -> Stats:
    """The statistics of some sessions. Days begin `zone_seconds` before they do in UTC."""
    return _Counter(database, filter, zone_seconds).all()


class _Counter:
    def __init__(self, database: Database, filter: SessionFilter, zone_seconds: int) -> None:
        self._database = database
        self._where, self._values = filter.condition()
        self._zone_seconds = zone_seconds

    def all(self) -> Stats:
        agents = self._rows("session.agent, count(*)", "session", "session.kind = 'main'", "session.agent")
        ((subagents,),) = self._rows("count(*)", "session", "session.kind = 'subagent'")
        ((messages,),) = self._rows("coalesce(sum(session.messages), 0)", "session")
        events = self._rows("event.kind, count(*)", _EVENTS, group="event.kind")
        return Stats(
            sessions=dict(agents), subagents=subagents, messages=int(messages), events=dict(events),
            days=self._days(), tools=self._tools(), projects=self._projects(), tokens=self._tokens(),
        )  # fmt: skip

    def _rows(self, columns: str, tables: str, condition: str = "TRUE", group: str = "") -> list[Any]:
        sql = f"SELECT {columns} FROM {tables} WHERE {condition} AND {self._where}"
        return list(self._database.rows(sql + (f" GROUP BY {group} ORDER BY {group}" if group else ""), *self._values))

    def _day(self, column: str) -> str:
        """SQL for the number of the day, counted from 1970."""
        return f"CAST(floor(({column} + {self._zone_seconds}) / 86400.0) AS INTEGER)"

    def _days(self) -> list[Day]:
        day = self._day("act.at")
        counted = self._rows(
            f"{day}, count(DISTINCT act.session), {_count('prompt')}, {_count('call')}",
            _USAGE,
            "act.at IS NOT NULL",
            day,
        )
        day = self._day("event.at")
        kinds = f"{_count_events('rejection')}, {_count_events('interruption')}"
        events = {row[0]: row[1:] for row in self._rows(f"{day}, {kinds}", _EVENTS, "event.at IS NOT NULL", day)}
        return [
            Day(
                day=_date(number), sessions=sessions, turns=int(turns), calls=int(calls),
                rejections=int(events.get(number, (0, 0))[0]), interruptions=int(events.get(number, (0, 0))[1]),
            )
            for number, sessions, turns, calls in counted
        ]  # fmt: skip

    def _tools(self) -> list[Tool]:
        columns = (
            f"{_NAME}, count(*), {_ended('error', 'tool_use_error')}, {_ended('rejected')}, {_ended('interrupted')}"
        )
        rows = self._rows(columns, _NAMED_USAGE, "act.kind = 'call'", _NAME)
        tools = [
            Tool(
                name=name or "?",
                calls=int(calls),
                failed=int(failed),
                rejected=int(rejected),
                interrupted=int(interrupted),
            )
            for name, calls, failed, rejected, interrupted in rows
        ]
        return sorted(tools, key=lambda tool: (-tool.calls, tool.name))

    def _projects(self) -> list[Project]:
        sessions = dict(self._rows("session.project, count(*)", "session", "session.kind = 'main'", "session.project"))
        turns = dict(self._rows(f"session.project, {_count('prompt')}", _USAGE, group="session.project"))
        kinds = f"{_count_events('rejection')}, {_count_events('interruption')}"
        events = {row[0]: row[1:] for row in self._rows(f"session.project, {kinds}", _EVENTS, group="session.project")}
        projects = [
            Project(
                path=path or "?", sessions=count, turns=int(turns.get(path, 0)),
                rejections=int(events.get(path, (0, 0))[0]), interruptions=int(events.get(path, (0, 0))[1]),
            )
            for path, count in sessions.items()
        ]  # fmt: skip
        return sorted(projects, key=lambda project: (-project.turns, project.path))

    def _tokens(self) -> list[Tokens]:
        day = self._day("act.at")
        names = ("input", "output", "cache_read", "cache_write", "reasoning")
        sums = ", ".join(f"coalesce(sum(act.{name}), 0)" for name in names)
        rows = self._rows(
            f"{day}, {_NAME}, {_count('reply')}, {sums}", _NAMED_USAGE,
            "act.kind IN ('reply', 'other') AND act.at IS NOT NULL", f"{day}, {_NAME}",
        )  # fmt: skip
        return [
            Tokens(
                day=_date(row[0]),
                model=row[1] or "?",
                replies=int(row[2]),
                **dict(zip(names, map(int, row[3:]), strict=True)),
            )
            for row in rows
        ]


_NAME = "coalesce(name.text, '')"
_NAMED_USAGE = "act JOIN session ON session.id = act.session LEFT JOIN name ON name.id = act.name"
_USAGE = "act JOIN session ON session.id = act.session"
_EVENTS = "event JOIN session ON session.id = event.session"


def _count(kind: str) -> str:
    return f"sum(CASE WHEN act.kind = '{kind}' THEN 1 ELSE 0 END)"


def _count_events(kind: str) -> str:
    return f"sum(CASE WHEN event.kind = '{kind}' THEN 1 ELSE 0 END)"


def _ended(*outcomes: str) -> str:
    listed = ", ".join(f"'{outcome}'" for outcome in outcomes)
    return f"sum(CASE WHEN act.outcome IN ({listed}) THEN 1 ELSE 0 END)"


def _date(number: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=int(number))).isoformat()
