"""Sessions that were removed from the store on purpose. They are not imported again until that is allowed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec

from .database import Database
from .rows import moment


class ForgottenSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is not imported again."""

    agent: str
    name: str
    at: datetime | None
    """When it was removed."""
    paths: tuple[str, ...]
    """Its files."""


class Exclusions(NamedTuple):
    """The sessions and files of one agent that are not imported."""

    names: frozenset[str]
    paths: frozenset[str]


class ForgottenSessions:
    """The forgotten sessions of this machine. Only `add` also accepts sessions of other machines."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[ForgottenSession]:
        """All forgotten sessions, the oldest first."""
        sql = "SELECT agent, name, path, at FROM forgotten WHERE machine = ? ORDER BY at, agent, name, path"
        found: dict[tuple[str, str], tuple[float, list[str]]] = {}
        for agent, name, path, at in self._database.rows(sql, self._database.machine):
            found.setdefault((agent, name), (at, []))[1].append(path)
        return [
            ForgottenSession(agent=agent, name=name, at=moment(at), paths=tuple(path for path in paths if path))
            for (agent, name), (at, paths) in found.items()
        ]

    def add(self, session: int, paths: Iterable[str]) -> None:
        """Exclude a session that is about to be removed from further imports; `paths` are files that only it needs."""
        ((machine, agent, name),) = self._database.rows(
            "SELECT machine, agent, name FROM session WHERE id = ?", session
        )
        self._remove(machine, agent, name)
        # Its pins, notes and tags are removed as well.
        self._database.rows("DELETE FROM annotation WHERE machine = ? AND agent = ? AND name = ?", machine, agent, name)
        rows = [(machine, agent, name, path, time.time()) for path in sorted({"", *paths})]
        self._database.insert("forgotten", "machine, agent, name, path, at", rows)

    def lift(self, session: ForgottenSession) -> None:
        """Allow a session to be imported again."""
        self._remove(self._database.machine, session.agent, session.name)

    def _remove(self, machine: int, agent: str, name: str) -> None:
        sql = "DELETE FROM forgotten WHERE machine = ? AND agent = ? AND name = ?"
        self._database.rows(sql, machine, agent, name)


def exclusions(sessions: Iterable[ForgottenSession], agent: str) -> Exclusions:
    """The sessions and files of an agent that are not imported."""
    own = [session for session in sessions if session.agent == agent]
    return Exclusions(
        frozenset(session.name for session in own), frozenset(path for session in own for path in session.paths)
    )
