"""The versions of a session's files that the archive has.

A version is a state of all files that a session was read from. A file that grew has its earlier states as a part of
its bytes; a file that was rewritten has them in rows of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from typing import Literal, NamedTuple

import msgspec

from ..core.errors import NotFoundError
from ..store import Store
from ..store.rows import FileRow, SessionRow, moment

VersionChange = Literal["created", "appended", "edited", "truncated", "rewritten"]
"""In the order of their weight: of several files that change at the same time, the last one counts."""
_CHANGES: tuple[VersionChange, ...] = ("created", "appended", "edited", "truncated", "rewritten")


class FileState(NamedTuple):
    """The first bytes of an archived file."""

    id: int
    agent: str
    path: str
    size: int


class _Step(NamedTuple):
    at: float
    change: VersionChange
    state: FileState
    since: float = 0.0
    """The time, or that of an earlier step of the file if the clock has been set back since."""
    turn: int = 0
    """Counts the steps for which that is the same."""

    @property
    def order(self) -> tuple[float, int, float]:
        """Its place among the steps of all files; those that were found together have the same."""
        return self.since, self.turn, self.at


class Version(msgspec.Struct, kw_only=True):
    """A state of a session's files."""

    number: int
    """Counted from 1, the oldest."""
    at: datetime | None
    """When the change was found; None for what an earlier unspool archived."""
    change: VersionChange
    size: int
    """The bytes of all files together."""
    files: dict[str, int]
    """The size of each file, by path."""


class History:
    """The versions of one session."""

    def __init__(self, store: Store, session: SessionRow) -> None:
        self._store = store
        self._session = session
        self.versions: list[Version] = []
        self._states: list[dict[int, FileState]] = []
        self._times: list[float] = []
        own = [file.id for file in store.files.of_session(session.id)]
        steps = [(step, place) for place, file in enumerate(own) for step in self._steps(file)]
        state: dict[int, FileState] = {}
        steps.sort(key=lambda entry: entry[0].order)
        for (since, _, at), group in groupby(steps, key=lambda entry: entry[0].order):
            changed = list(group)
            state = state | {place: step.state for step, place in changed}
            self._times.append(since)
            self._add(at, max((step.change for step, _ in changed), key=_CHANGES.index), state)

    def _add(self, at: float, change: VersionChange, state: dict[int, FileState]) -> None:
        self._states.append(state)
        files = {file.path: file.size for _, file in sorted(state.items())}
        self.versions.append(
            Version(
                number=len(self._states), at=moment(at or None), change=change, size=sum(files.values()), files=files
            )
        )

    def _steps(self, file: int) -> Iterator[_Step]:
        """Every known state of a file, the oldest first."""
        since, turn = 0.0, 0
        for step in self._found_steps(file):
            turn = turn + 1 if step.at <= since else 0
            since = max(since, step.at)
            yield step._replace(since=since, turn=turn)

    def _found_steps(self, file: int) -> Iterator[_Step]:
        """The same, with the times at which they were found. What has no time was there before everything else."""
        for row in self._store.files.versions(file):
            growth = [(start, at) for start, at in self._store.files.growth(row.id) if start < row.kept]
            ends = [*(start for start, _ in growth), row.kept]
            yield _Step(row.archived_at or 0.0, row.origin, _state(row, ends[0]))
            for (_, at), end in zip(growth, ends[1:], strict=True):
                yield _Step(at, "appended", _state(row, end))

    def states(self, number: int) -> list[FileState]:
        """The files of a version."""
        if not 1 <= number <= len(self._states):
            known = f"versions 1 to {len(self._states)}" if self._states else "no versions"
            raise NotFoundError(f"{self._session.name} has {known}, not {number}")
        return [state for _, state in sorted(self._states[number - 1].items())]

    def changed(self, number: int) -> list[tuple[FileState | None, FileState]]:
        """The files that differ from the version before, as they were and as they are."""
        self.states(number)
        before = self._states[number - 2] if number > 1 else {}
        now = sorted(self._states[number - 1].items())
        return [(before.get(place), state) for place, state in now if before.get(place) != state]

    def beside(self, number: int) -> list[FileState]:
        """The files of no session beside it, such as saved outputs, as they were at the time of a version."""
        found = []
        for file in self._store.files.beside_session(self._session.id):
            steps = [step for step in self._steps(file.id) if step.since <= self._times[number - 1]]
            found += [step.state for step in steps[-1:]]
        return found


def _state(row: FileRow, size: int) -> FileState:
    return FileState(row.id, row.agent, row.path, size)
