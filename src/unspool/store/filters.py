"""The conditions of ledgers and numbers: which sessions, which events, since when and until when."""

from __future__ import annotations

from datetime import datetime

from .search import containing

Condition = tuple[str, object]
"""SQL with one `?`, and its value; without a value it does not hold anything back."""


def of_sessions(agent: str | None = None, project: str | None = None) -> list[Condition]:
    """Sessions of an agent, in a project of which a part of the path is known."""
    return [
        ("session.agent = ?", agent),
        ("lower(session.project) LIKE ? ESCAPE '\\'", containing(project) if project else None),
    ]


def of_span(since: datetime | None, until: datetime | None) -> list[Condition]:
    """Sessions that went on since a time, and were begun before another."""
    return [("session.ended >= ?", _seconds(since)), ("session.started < ?", _seconds(until))]


def of_events(tool: str | None, since: datetime | None, until: datetime | None) -> list[Condition]:
    """Events of a tool in some time. One of which no time is known counts for when its session ended."""
    at = "coalesce(event.at, session.ended)"
    return [
        ("lower(event.tool) = ?", tool.lower() if tool else None),
        (f"{at} >= ?", _seconds(since)),
        (f"{at} < ?", _seconds(until)),
    ]


def joined(conditions: list[Condition]) -> tuple[str, list[object]]:
    """All conditions that have a value, as one, and their values."""
    given = [(sql, value) for sql, value in conditions if value is not None]
    return " AND ".join(sql for sql, _ in given) or "TRUE", [value for _, value in given]


def _seconds(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment is not None else None
