"""Endpoints about all sessions: lists, events, search, statistics."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from ... import __version__
from ...core import typed_json
from ...core.errors import AmbiguousError, NotFoundError
from ...core.events import BY_NAME, find_listed_kind
from ...core.model import SCHEMA
from ...core.resolve import ambiguous, matching
from ...core.session import Session
from ...core.timestamps import parse_time, zone_seconds
from ...render.event_text import describe_event
from ...store import Store
from ...store.filters import EventFilter, SessionFilter
from ...store.locate import data_folder
from ...store.rows import EventRow, SessionRow
from ...store.stats import Stats, compute_stats
from ...store.usage_report import UsageFilter, UsageReport, parse_dimensions
from ...usage.prices import load_prices_if_readable
from ..session_list import list_projects, list_sessions, name_of_project
from ..usage_view import usage_report
from ..views import ListParams
from .params import Endpoint
from .schemas import (
    EventEntry,
    EventPage,
    EventsParams,
    Health,
    NoParams,
    ProjectParams,
    Projects,
    SessionPage,
    SessionsParams,
    StatsParams,
    SubagentParams,
    UsageParams,
)
from .search import search


def projects(store: Store, _: NoParams) -> Projects:
    """The projects that have sessions."""
    return Projects(seq=store.changes.last_seq(), projects=list_projects(store))


def sessions_of_project(store: Store, params: ProjectParams) -> SessionPage:
    """The sessions of one project, most recent first."""
    path = _path_of(store, params.project)
    if path is None:
        raise NotFoundError(f"There is no project {params.project!r}. See /api/projects for all projects.")
    return _page(store, ListParams(project=path, limit=params.limit, offset=params.offset))


def agent_session(store: Store, params: SubagentParams) -> Session:
    """The whole session of a sub-agent."""
    id = params.agent_id.removeprefix("agent-")
    rows = [
        row
        for name in dict.fromkeys((params.agent_id, id))
        for row in store.sessions.select(SessionFilter(kind="subagent", name_like=name))
        if row.project and params.project in (row.project, name_of_project(row.project))
    ]
    if not rows:
        raise NotFoundError(
            f"There is no sub-agent {id!r} in project {params.project!r}. See /api/projects for all projects."
        )
    fits = matching(params.agent_id, rows, _name_of) or matching(id, rows, _name_of)
    if len(names := list(dict.fromkeys(map(_name_of, fits)))) > 1:
        raise ambiguous(params.agent_id, names)
    return store.messages.load_session(fits[0].id)


def _name_of(row: SessionRow) -> str:
    return row.name


def sessions(store: Store, params: SessionsParams) -> SessionPage:
    """All sessions, with their sub-agents."""
    project = (_path_of(store, params.project) or params.project) if params.project else None
    return _page(
        store,
        ListParams(
            q=params.q,
            agent=_or_none(params.agent),
            project=project,
            has=_or_none(params.has),
            status=_or_none(params.status),
            sort=params.sort,
            limit=params.limit,
            offset=params.offset,
        ),
    )


def _page(store: Store, filter: ListParams) -> SessionPage:
    seq = store.changes.last_seq()
    found = list_sessions(store, filter)
    return SessionPage(seq=seq, total=found.total, limit=filter.limit, offset=filter.offset, sessions=found.sessions)


def _path_of(store: Store, project: str) -> str | None:
    """Return the path of a project, given its path or its name."""
    known = list_projects(store)
    if any(row.path == project for row in known):
        return project
    named = [row.path for row in known if row.name == project]
    if len(named) > 1:
        raise AmbiguousError(f"{len(named)} projects are called {project!r}: {', '.join(named[:5])}. Use the path.")
    return named[0] if named else None


def all_events(store: Store, params: EventsParams) -> EventPage:
    """Events of one kind in all sessions: rejections, interruptions, compactions, clears, errors, unfinished calls."""
    seq = store.changes.last_seq()
    wanted = EventFilter(
        kinds=(find_listed_kind(params.kind).name,),
        sessions=SessionFilter(agent=_or_none(params.agent), project_contains=params.project or None),
        tool=params.tool or None,
        since=parse_time(params.after),
        until=parse_time(params.before),
    )
    rows, total = store.events.page(wanted, params.limit, params.offset)
    return EventPage(
        seq=seq, total=total, limit=params.limit, offset=params.offset, entries=[_event_entry(row) for row in rows]
    )


def _event_entry(row: EventRow) -> EventEntry:
    event = typed_json.decode(row.event, type=BY_NAME[row.kind].struct)
    return EventEntry(
        session=row.session,
        kind=row.kind,
        message_index=row.message_index,
        timestamp=row.timestamp,
        tool=row.tool,
        text=describe_event(event),
        event=event,
    )


def stats(store: Store, params: StatsParams) -> Stats:
    """The statistics of `unspool stats --json`."""
    wanted = SessionFilter(
        agent=_or_none(params.agent),
        project_contains=params.project or None,
        active_since=parse_time(params.after),
        started_before=parse_time(params.before),
    )
    return compute_stats(store.database, wanted, zone_seconds(), load_prices_if_readable(data_folder()))


def usage(store: Store, params: UsageParams) -> UsageReport:
    """Tokens and their cost, as in `unspool usage --json`."""
    filter = UsageFilter(
        sessions=SessionFilter(agent=_or_none(params.agent), project_contains=params.project or None),
        since=parse_time(params.after),
        until=parse_time(params.before),
        model=params.model or None,
    )
    return usage_report(store, filter, parse_dimensions(params.by))


def health(store: Store, _: NoParams) -> Health:
    """Whether the server and its store are available."""
    sessions = store.sessions.count()
    return Health(status="ok", version=__version__, schema=SCHEMA, seq=store.changes.last_seq(), sessions=sessions)


def _or_none(value: str | UnsetType) -> str | None:
    return None if value is UNSET else value


ENDPOINTS = [
    Endpoint.of("/projects", projects),
    Endpoint.of("/projects/{project}/sessions", sessions_of_project),
    Endpoint.of("/projects/{project}/agent-sessions/{agent_id}", agent_session),
    Endpoint.of("/sessions", sessions),
    Endpoint.of("/events/{kind}", all_events),
    Endpoint.of("/search", search),
    Endpoint.of("/stats", stats),
    Endpoint.of("/usage", usage),
    Endpoint.of("/health", health),
]
