"""Answers about all sessions: lists, ledgers, numbers."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from ... import __version__
from ...core.errors import AmbiguousError, NotFoundError
from ...core.events import BY_NAME, find_listed_kind
from ...core.model import SCHEMA
from ...core.resolve import ambiguous, matching
from ...core.session import Session
from ...core.timestamps import parse_time, zone_seconds
from ...render.event_text import describe_event
from ...store import Store
from ...store.filters import EventFilter, SessionFilter
from ...store.rows import EventRow, SessionRow
from ...store.stats import Stats, compute_stats
from ..session_list import list_projects, list_sessions, name_of_project
from ..views import Filter
from .params import Endpoint
from .schemas import (
    AgentSessionAsked,
    Health,
    Ledger,
    LedgerAsked,
    LedgerEntry,
    Nothing,
    ProjectAsked,
    Projects,
    SessionPage,
    SessionsAsked,
    StatsAsked,
)
from .search import search


def projects(store: Store, _: Nothing) -> Projects:
    """The projects there are sessions of."""
    return Projects(seq=store.changes.last_seq(), projects=list_projects(store))


def sessions_of_project(store: Store, asked: ProjectAsked) -> SessionPage:
    """The sessions of one project, the last one first."""
    path = _path_of(store, asked.project)
    if path is None:
        raise NotFoundError(f"there is no project {asked.project!r}; /api/projects lists them")
    return _page(store, Filter(project=path, limit=asked.limit, offset=asked.offset))


def agent_session(store: Store, asked: AgentSessionAsked) -> Session:
    """The whole session of a sub-agent."""
    id = asked.agent_id.removeprefix("agent-")
    rows = [
        row
        for name in dict.fromkeys((asked.agent_id, id))
        for row in store.sessions.select(SessionFilter(kind="subagent", name_like=name))
        if row.project and asked.project in (row.project, name_of_project(row.project))
    ]
    if not rows:
        raise NotFoundError(f"no sub-agent {id!r} in project {asked.project!r}; /api/projects lists the projects")
    fits = matching(asked.agent_id, rows, _name_of) or matching(id, rows, _name_of)
    if len(names := list(dict.fromkeys(map(_name_of, fits)))) > 1:
        raise ambiguous(asked.agent_id, names)
    return store.messages.load_session(fits[0].id)


def _name_of(row: SessionRow) -> str:
    return row.name


def sessions(store: Store, asked: SessionsAsked) -> SessionPage:
    """The sessions there are, with their sub-agents."""
    project = (_path_of(store, asked.project) or asked.project) if asked.project else None
    return _page(
        store,
        Filter(
            q=asked.q, agent=_or_none(asked.agent), project=project, has=_or_none(asked.has),
            status=_or_none(asked.status), sort=asked.sort, limit=asked.limit, offset=asked.offset,
        ),
    )  # fmt: skip


def _page(store: Store, filter: Filter) -> SessionPage:
    seq = store.changes.last_seq()
    found = list_sessions(store, filter)
    return SessionPage(seq=seq, total=found.total, limit=filter.limit, offset=filter.offset, sessions=found.sessions)


def _path_of(store: Store, project: str) -> str | None:
    """The path of a project that is given by its path or its name."""
    known = list_projects(store)
    if any(row.path == project for row in known):
        return project
    named = [row.path for row in known if row.name == project]
    if len(named) > 1:
        raise AmbiguousError(f"{len(named)} projects are called {project!r}: {', '.join(named[:5])}; give the path")
    return named[0] if named else None


def all_events(store: Store, asked: LedgerAsked) -> Ledger:
    """What was refused, interrupted, compacted, cleared, what failed or never finished, in all sessions."""
    seq = store.changes.last_seq()
    wanted = EventFilter(
        kinds=(find_listed_kind(asked.kind).name,),
        sessions=SessionFilter(agent=_or_none(asked.agent), project_contains=asked.project or None),
        tool=asked.tool or None, since=parse_time(asked.after), until=parse_time(asked.before),
    )  # fmt: skip
    rows, total = store.events.page(wanted, asked.limit, asked.offset)
    return Ledger(
        seq=seq, total=total, limit=asked.limit, offset=asked.offset, entries=[_ledger_entry(row) for row in rows]
    )


def _ledger_entry(row: EventRow) -> LedgerEntry:
    event = msgspec.json.decode(row.event, type=BY_NAME[row.kind].struct)
    return LedgerEntry(
        session=row.session, kind=row.kind, message_index=row.message_index, timestamp=row.timestamp,
        tool=row.tool, text=describe_event(event), event=event,
    )  # fmt: skip


def stats(store: Store, asked: StatsAsked) -> Stats:
    """The numbers of `unspool stats --json`."""
    wanted = SessionFilter(
        agent=_or_none(asked.agent), project_contains=asked.project or None, active_since=parse_time(asked.after),
        started_before=parse_time(asked.before),
    )  # fmt: skip
    return compute_stats(store.database, wanted, zone_seconds())


def health(store: Store, _: Nothing) -> Health:
    """Whether the server and its store answer."""
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
    Endpoint.of("/health", health),
]
