"""Which sessions there are: found, sorted and grouped for lists."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import PurePath

from ..core.errors import UsageError
from ..core.events import find_kind
from ..store.base import NEWEST_FIRST, Store
from ..store.rows import SessionRow
from .views import Filter, Listed, ProjectRow, SessionList

_FRESH_SECONDS = 120
"""A session that was written to so recently is taken to be at work."""
_MOST = 1000
_DEEPEST = 4
_SORTS = {
    "recent": NEWEST_FIRST,
    "started": "session.started DESC NULLS LAST, session.id DESC",
    "messages": "session.messages DESC, session.id DESC",
    "title": "lower(session.title) NULLS LAST, session.id",
}
_NOT_NESTED = """(session.kind = 'main' OR NOT EXISTS (SELECT 1 FROM session AS above
    WHERE above.machine = session.machine AND above.agent = session.agent AND above.name = session.parent))"""
"""Sub-agents are shown below the session that started them, where that is known."""


def find(store: Store, key: str) -> SessionRow:
    """A session by the agent's id or the beginning of it, or by its number in the store."""
    rows = store.sessions("session.id = ?", int(key)) if _is_number(key) else store.sessions("session.name = ?", key)
    # Where several machines have a session of one name, it was copied: the newest is meant.
    return rows[0] if rows else store.find(key)


def url_name(row: SessionRow) -> str:
    """The name of a session in addresses."""
    return str(row.id) if not row.name or "/" in row.name or row.name.isdecimal() else row.name


def is_live(row: SessionRow, now: float | None = None) -> bool:
    """Whether an agent works on a session, as far as one can see."""
    if row.gone_at is not None:
        return False
    ended = row.ended_at.timestamp() if row.ended_at is not None else 0.0
    return row.status in ("running", "waiting") or ended > (time.time() if now is None else now) - _FRESH_SECONDS


def list_sessions(store: Store, filter: Filter) -> SessionList:
    """The sessions that fit, with those at work first."""
    where, values = _conditions(filter)
    ((total,),) = store.rows(f"SELECT count(*) FROM session WHERE {where}", *values)
    order = _SORTS[filter.sort]
    if filter.sort == "recent":
        fresh = f"session.status IN ('running', 'waiting') OR session.ended > {int(time.time()) - _FRESH_SECONDS}"
        order = f"CASE WHEN session.gone_at IS NULL AND ({fresh}) THEN 0 ELSE 1 END, {order}"
    rows = store.sessions(where, *values, order=order, limit=filter.limit, offset=filter.offset)
    below = _subagents(store, rows)
    listed = [Listed(row=row, subagents=below.get(row.id, []), live=is_live(row)) for row in rows]
    return SessionList(sessions=listed, total=int(total))


def list_projects(store: Store) -> list[ProjectRow]:
    """The folders in which agents worked, the last one first."""
    sql = """SELECT project, agent, count(*), max(ended) FROM session WHERE kind = 'main' AND project IS NOT NULL
        GROUP BY project, agent"""
    found: dict[str, ProjectRow] = {}
    for path, agent, count, ended in store.rows(sql):
        moment = datetime.fromtimestamp(ended, UTC) if ended is not None else None
        row = found.get(path)
        if row is None:
            row = found[path] = ProjectRow(path=path, name=name_of_project(path), sessions=0, agents=[], ended_at=None)
        row.sessions += int(count)
        row.agents.append(agent)
        row.ended_at = max((at for at in (row.ended_at, moment) if at is not None), default=None)
    beginning = datetime.fromtimestamp(0, UTC)
    return sorted(found.values(), key=lambda row: row.ended_at or beginning, reverse=True)


def name_of_project(path: str) -> str:
    """The last part of a folder's path."""
    return PurePath(path.replace("\\", "/")).name or path


def _conditions(filter: Filter) -> tuple[str, list[object]]:
    _check(filter)
    found: list[tuple[str, list[object]]] = [(_NOT_NESTED, []), ("session.messages > 0", [])]
    if filter.q:
        like = f"%{filter.q.lower()}%"
        columns = ("title", "project", "name", "agent")
        sql = " OR ".join(f"lower(session.{column}) LIKE ?" for column in columns)
        found.append((f"({sql})", [like] * len(columns)))
    if filter.agent:
        found.append(("session.agent = ?", [filter.agent]))
    if filter.project:
        found.append(("session.project = ?", [filter.project]))
    if filter.status:
        found.append(("session.status = ?", [filter.status]))
    if filter.has:
        sql = "EXISTS (SELECT 1 FROM event WHERE event.session = session.id AND event.kind = ?)"
        found.append((sql, [find_kind(filter.has).name]))
    return " AND ".join(sql for sql, _ in found), [value for _, values in found for value in values]


def _check(filter: Filter) -> None:
    if filter.sort not in _SORTS:
        raise UsageError(f"sort is one of {', '.join(_SORTS)}, not {filter.sort!r}")
    if not 0 < filter.limit <= _MOST:
        raise UsageError(f"limit is between 1 and {_MOST}, not {filter.limit}")
    if not 0 <= filter.offset < 1 << 53:
        raise UsageError(f"offset is 0 or more, not {filter.offset}")


def _subagents(store: Store, rows: list[SessionRow]) -> dict[int, list[SessionRow]]:
    """The sub-agents of sessions, and theirs, by the session at the top."""
    found: dict[int, list[SessionRow]] = {}
    tops = {(row.machine, row.agent, row.name): row.id for row in rows}
    for _ in range(_DEEPEST):
        if not tops:
            break
        marks = ", ".join("?" * len(tops))
        below = store.sessions(
            f"session.kind = 'subagent' AND session.parent IN ({marks})", *(name for _, _, name in tops),
            order="session.started, session.id",
        )  # fmt: skip
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
