"""The sessions that a tool call may use: those of one project, except the session that makes the call."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec.structs import replace

from ..core.errors import NotFoundError
from ..core.resolve import LATEST, resolve_name
from ..repositories import enclosing_repository, repository_of
from ..store import Store
from ..store.filters import SessionFilter
from ..store.rows import SessionRow

_DEEPEST = 8
"""Maximum depth of nested sub-agents to search."""


class Caller(msgspec.Struct, frozen=True):
    """The session that a tool call comes from."""

    agent: str
    session: str | None = None
    since: datetime | None = None
    """If `session` is not known: it is the one written last, provided that was at this time or later."""


class ProjectScope(msgspec.Struct, frozen=True):
    """The project, or all projects, that a server gives access to."""

    folder: str | None
    """The folder of the project; None means all projects."""

    @property
    def root(self) -> str | None:
        """The repository that contains the folder, or the folder itself."""
        return None if self.folder is None else enclosing_repository(self.folder) or os.path.abspath(self.folder)

    @property
    def text(self) -> str:
        """A description of the scope."""
        return "all projects" if self.folder is None else "this project"

    def sessions(self, store: Store, callers: Iterable[Caller]) -> SessionFilter:
        """Return a filter for the sessions that may be used, without those of the callers."""
        allowed = SessionFilter(is_empty=False)
        if self.folder is not None:
            # The same path on another machine is another folder.
            here = SessionFilter(machine=store.machine)
            recorded = (row.value for row in store.sessions.count_by("project", here) if row.value)
            allowed = replace(here, is_empty=False, projects=tuple(self._among(recorded)))
        without = {id for caller in callers for id in own_sessions(store, caller, allowed)}
        return replace(allowed, without=tuple(without))

    def _among(self, recorded: Iterable[str]) -> list[str]:
        """Return those of the recorded session folders that belong to the project."""
        assert self.folder is not None
        folder = os.path.abspath(self.folder)
        real = os.path.realpath(folder)
        around = enclosing_repository(folder)
        repositories = {repository_of(around, ()), os.path.realpath(repository_of(around, ()))} if around else set()
        return [
            path
            for path in recorded
            if (plain := os.path.normpath(path)) in (folder, real)
            or repository_of(plain, ()) in repositories
            or any(_belongs(plain, repository) for repository in repositories)
        ]


def _belongs(path: str, repository: str) -> bool:
    """Whether a folder is inside a repository, but not in another repository nested in it."""
    if not path.startswith(os.path.join(repository, "")):
        return False
    nearest = enclosing_repository(path)
    return nearest is not None and repository_of(nearest, ()) in (repository, os.path.realpath(repository))


def own_sessions(store: Store, caller: Caller, allowed: SessionFilter) -> set[int]:
    """Return the ids of the calling session, its ancestors, and all their sub-agents."""
    session = caller.session or _latest_written(store, caller, allowed)
    if session is None:
        return set()
    named = SessionFilter(agent=caller.agent, name=session)
    family = {row.name: row.id for row in store.sessions.select(named)}
    top = next(iter(store.sessions.select(named, limit=1)), None)
    for _ in range(_DEEPEST):
        if top is None or top.parent is None:
            break
        top = next(iter(store.sessions.select(SessionFilter(agent=caller.agent, name=top.parent), limit=1)), None)
        if top is not None:
            family[top.name] = top.id
    parents = tuple({*family, session})
    for _ in range(_DEEPEST):
        below = store.sessions.select(SessionFilter(agent=caller.agent, parents=parents))
        parents = tuple(row.name for row in below if row.name not in family)
        family.update((row.name, row.id) for row in below)
        if not parents:
            break
    return set(family.values())


def _latest_written(store: Store, caller: Caller, allowed: SessionFilter) -> str | None:
    """Return the most likely session of an agent that does not name it."""
    wanted = replace(allowed, agent=caller.agent, kind="main", active_since=caller.since)
    found = store.sessions.select(wanted, limit=1)
    return found[0].name if found else None


def find_session(store: Store, sessions: SessionFilter, name: str) -> SessionRow:
    """Find a session by its id, a prefix of its id, or `latest`. Never opens files."""
    if name == LATEST:
        found = store.sessions.select(replace(sessions, kind="main"), limit=1)
        if not found:
            raise NotFoundError("there are no sessions here yet")
        return found[0]
    candidates = store.sessions.select(replace(sessions, name=name)) or store.sessions.select(
        replace(sessions, name_like=name)
    )
    if not candidates:
        raise NotFoundError("no such session here; recent_work lists sessions, search finds them")
    return resolve_name(name, candidates, lambda row: row.name, lambda: len(candidates))[0]
