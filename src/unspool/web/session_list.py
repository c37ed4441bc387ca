"""Lists of sessions and projects, and the names of sessions in addresses."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import PurePath

import msgspec

from ..core.errors import UsageError
from ..core.events import find_kind
from ..core.timestamps import parse_time
from ..render.plain_text import plain_line
from ..render.sanitize import harmless
from ..repositories import repositories_of
from ..store import Store
from ..store.filters import SessionFilter
from ..store.rows import SessionRow
from ..store.sessions import SessionOrder
from .run_states import run_on, shown_counts
from .views import ListedSession, ListParams, ProjectRow, SessionList

_FRESH_SECONDS = 120
"""A session that was written to within this time counts as live."""
_SKEW_SECONDS = 86_400
"""Clocks and time zones may differ; a time further in the future comes from a wrong clock."""
_MOST = 1000
_DEEPEST = 4
_LONGEST_NAME = 500
_SORTS: tuple[SessionOrder, ...] = ("recent", "started", "messages", "title")


def find(store: Store, key: str) -> SessionRow:
    """Find the session that an address names: by its number in the store, or as `Sessions.find` does."""
    row = store.sessions.get(int(key)) if _is_number(key) else None
    return row if row is not None else store.sessions.find(key)


def short_id(name: str) -> str:
    """Return the part of an id that is shown."""
    return harmless(name.rsplit("/", 1)[-1][:8])


def shown_title(row: SessionRow) -> str:
    """Return the title of a session as lists show it."""
    if row.title:
        return plain_line(row.title, 160)
    return f"{'Sub-agent' if row.kind == 'subagent' else 'Session'} {short_id(row.name)}"


def title_of_session(store: Store, agent: str, session: str | None) -> str | None:
    """Return the title of a session, given its agent and id; None if it is not stored yet."""
    if session is None:
        return None
    found = store.sessions.select(SessionFilter(agent=agent, name=session, is_empty=False), limit=1)
    return shown_title(found[0]) if found else None


def url_name(row: SessionRow) -> str:
    """Return the name of a session in addresses; its number if the name is not valid there or looks like a number.

    Browsers remove dots that stand for a folder, and servers reject long addresses.
    """
    name = row.name
    is_plain = name.isprintable() and "/" not in name and not name.isdecimal()
    return name if is_plain and 0 < len(name) <= _LONGEST_NAME and name not in (".", "..") else str(row.id)


def is_live(row: SessionRow, now: float | None = None) -> bool:
    """Whether an agent is working on a session: known for our own runs, and an estimate for others."""
    if row.gone_at is not None:
        return False
    if (run := run_on(row)) is not None:
        return run.is_active
    ended = row.ended_at.timestamp() if row.ended_at is not None else 0.0
    age = (time.time() if now is None else now) - ended
    return row.status in ("running", "waiting") or -_SKEW_SECONDS < age < _FRESH_SECONDS


def list_sessions(store: Store, params: ListParams) -> SessionList:
    """Return the sessions that match. In the order `recent`, live ones come first."""
    order = _check(params)
    wanted = filter_of(store, params)
    live_since = time.time() - _FRESH_SECONDS if order == "recent" else None
    rows = store.sessions.select(wanted, order=order, live_since=live_since, limit=params.limit, offset=params.offset)
    below = _subagents(store, rows)
    listed = [_listed(row, below.get(row.id, [])) for row in rows]
    if order == "recent":
        listed.sort(key=lambda one: one.run_state != "waiting-input")
    return SessionList(sessions=listed, total=store.sessions.count(wanted))


def filter_of(store: Store, params: ListParams) -> SessionFilter:
    """Return the filter for the sessions of a list. A project includes the worktrees of its repository."""
    projects = None
    if params.project:
        known = repositories_of(path for path in project_paths(store) if path)
        projects = tuple(sorted({params.project, *(path for path, top in known.items() if top == params.project)}))
    # Sub-agents are listed below the session that started them, if that is known.
    return SessionFilter(
        text=params.q,
        agent=params.agent,
        projects=projects,
        status=params.status,
        has=find_kind(params.has).name if params.has else None,
        model=params.model,
        active_since=parse_time(params.after),
        started_before=parse_time(params.before),
        is_nested=False,
        is_empty=False,
    )


def project_paths(store: Store) -> list[str]:
    """Return the folders of all sessions."""
    return [row.value for row in store.sessions.count_by("project", SessionFilter(is_empty=False)) if row.value]


def listed_session(store: Store, row: SessionRow) -> ListedSession:
    """Return one session as lists show it; for a sub-agent, the session that started it."""
    for _ in range(_DEEPEST):
        above = store.sessions.select(SessionFilter(agent=row.agent, name=row.parent), limit=1) if row.parent else []
        if not above or not above[0].messages:
            break
        row = above[0]
    return _listed(row, _subagents(store, [row]).get(row.id, []))


def _listed(row: SessionRow, subagents: list[SessionRow]) -> ListedSession:
    run, counts = run_on(row), shown_counts(row)
    if counts is not row.counts:
        row = msgspec.structs.replace(row, counts=counts)
    return ListedSession(
        row=row,
        subagents=subagents,
        live=is_live(row),
        run_state=run.state if run else None,
        shown_title=shown_title(row),
    )


def list_projects(store: Store) -> list[ProjectRow]:
    """Return the folders that agents worked in, the most recent first."""
    found: dict[str, ProjectRow] = {}
    for path, agent, count, ended_at in store.sessions.projects():
        row = found.get(path)
        if row is None:
            row = found[path] = ProjectRow(path=path, name=name_of_project(path), sessions=0, agents=[], ended_at=None)
        row.sessions += count
        row.agents.append(agent)
        row.ended_at = max((at for at in (row.ended_at, ended_at) if at is not None), default=None)
    beginning = datetime.fromtimestamp(0, UTC)
    return sorted(found.values(), key=lambda row: row.ended_at or beginning, reverse=True)


def name_of_project(path: str) -> str:
    """Return the last part of a project's path."""
    return PurePath(path.replace("\\", "/")).name or path


def distinct_names(projects: Iterable[str]) -> dict[str, str]:
    """Return the name of each project, with as many parent folders as needed to tell equal names apart."""
    paths = {path: PurePath(path.replace("\\", "/")).parts for path in projects}
    found = {path: name_of_project(path) for path in paths}
    for depth in range(2, max(map(len, paths.values()), default=0) + 1):
        counted = Counter(found.values())
        for path, parts in paths.items():
            if counted[found[path]] > 1:
                found[path] = "/".join(parts[-depth:]).replace("//", "/")
    return found


def _check(params: ListParams) -> SessionOrder:
    order = next((sort for sort in _SORTS if sort == params.sort), None)
    if order is None:
        raise UsageError(f"Unknown sort {params.sort!r}; choose from {', '.join(_SORTS)}")
    if not 0 < params.limit <= _MOST:
        raise UsageError(f"limit must be between 1 and {_MOST}, not {params.limit}")
    if not 0 <= params.offset < 1 << 53:
        raise UsageError(f"offset must be 0 or more, not {params.offset}")
    return order


def _subagents(store: Store, rows: list[SessionRow]) -> dict[int, list[SessionRow]]:
    """Return the sub-agents of sessions, and their sub-agents, by the session at the top."""
    found: dict[int, list[SessionRow]] = {}
    tops = {(row.machine, row.agent, row.name): row.id for row in rows}
    for _ in range(_DEEPEST):
        if not tops:
            break
        parents = tuple(name for _, _, name in tops)
        below = store.sessions.select(SessionFilter(kind="subagent", parents=parents), order="oldest")
        next_tops = {}
        for row in below:
            top = tops.get((row.machine, row.agent, row.parent or ""))
            if top is not None:
                found.setdefault(top, []).append(row)
                next_tops[row.machine, row.agent, row.name] = top
        tops = next_tops
    return found


def _is_number(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) < 16
