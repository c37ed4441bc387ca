"""The facets of a search: its matches by agent, project, role, tool and time."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice

import msgspec

from ..core.timestamps import parse_time
from ..search.query import Query
from .database import Database, Row
from .indexed_text import AUTHORS
from .search import QueryConditions

MOST_MATCHES = 20_000
"""Only the best matches are counted: counting all those of a frequent word would take longer than the search."""
PERIODS = ("today", "7d", "30d", "365d")


class FacetValue(msgspec.Struct):
    """A value of a filter, and the number of sessions with a match that has it."""

    value: str
    sessions: int


class SearchFacets(msgspec.Struct, kw_only=True):
    """The values to narrow a search by, the most frequent first."""

    agent: list[FacetValue] = []
    project: list[FacetValue] = []
    role: list[FacetValue] = []
    tool: list[FacetValue] = []
    after: list[FacetValue] = []
    """Periods up to now, as the filter `after:` accepts them; the shortest first."""
    is_complete: bool = True
    """False if there are more matches than were counted."""


class _Tally:
    """Counts sessions by value."""

    def __init__(self) -> None:
        self._sessions: dict[str, set[int]] = {}

    def add(self, value: str | None, session: int) -> None:
        if value:
            self._sessions.setdefault(value, set()).add(session)

    def values(self) -> list[FacetValue]:
        found = [FacetValue(value, len(sessions)) for value, sessions in self._sessions.items()]
        return sorted(found, key=lambda facet: (-facet.sessions, facet.value))


def count_facets(database: Database, query: Query, now: datetime | None = None) -> SearchFacets:
    """Count the matches of a query by facet."""
    agents, projects, roles, tools, periods = (_Tally() for _ in range(5))
    begins = [(word, _seconds(parse_time(word, now or datetime.now(UTC)))) for word in PERIODS]
    by_tool: dict[int, set[int]] = {}
    count = 0
    with closing(_matches(database, query)) as rows:
        for session, author, tool, at, agent, project in islice(rows, MOST_MATCHES + 1):
            count += 1
            agents.add(agent, session)
            projects.add(project, session)
            roles.add(AUTHORS[author], session)
            if tool is not None:
                by_tool.setdefault(tool, set()).add(session)
            for word, begin in begins if at is not None else ():
                if at >= begin:
                    periods.add(word, session)
    names = database.names.texts(by_tool)
    for tool, sessions in by_tool.items():
        for session in sessions:
            tools.add(names.get(tool), session)
    times = sorted(periods.values(), key=lambda facet: PERIODS.index(facet.value))
    return SearchFacets(
        agent=agents.values(),
        project=projects.values(),
        role=roles.values(),
        tool=tools.values(),
        after=times,
        is_complete=count <= MOST_MATCHES,
    )


def _matches(database: Database, query: Query) -> Generator[Row]:
    """The matches of a query, the best first."""
    filters = QueryConditions(query.filters)
    for index in database.words.in_order(query.match):
        sql = f"""SELECT part.session, part.author, part.tool, part.at, session.agent, session.project
            FROM {index.tables} JOIN session ON session.id = part.session
            WHERE {index.condition} AND {filters.sql} ORDER BY {index.position} DESC LIMIT ?"""
        with closing(database.iterate(sql, *index.values, *filters.values, MOST_MATCHES + 1)) as rows:
            yield from rows


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment is not None else 0.0
