"""Lists the versions of a session's files in the archive.

A version is a state of all files that a session was read from. The earlier states of a file that grew are the first
part of its bytes; those of a file that was rewritten have rows of their own.
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
"""In increasing order of importance: if several files change at the same time, the most important change counts."""
_CHANGES: tuple[VersionChange, ...] = ("created", "appended", "edited", "truncated", "rewritten")


class FileState(NamedTuple):
    """A state of an archived file: its first `size` bytes."""

    id: int
    agent: str
    path: str
    size: int


class _Step(NamedTuple):
    at: float
    change: VersionChange
    state: FileState
    since: float = 0.0
    """`at`, or the time of an earlier step of the file if the clock was set back in between."""
    turn: int = 0
    """Numbers the steps with the same `since`."""

    @property
    def order(self) -> tuple[float, int, float]:
        """The sort key among the steps of all files; steps that were found together have the same key."""
        return self.since, self.turn, self.at


class Version(msgspec.Struct, kw_only=True):
    """A state of a session's files."""

    number: int
    """Counted from 1, the oldest."""
    at: datetime | None
    """When the change was found; None if an earlier version of unspool archived it without the time."""
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
        steps = [(step, index) for index, file in enumerate(own) for step in self._steps(file)]
        state: dict[int, FileState] = {}
        steps.sort(key=lambda entry: entry[0].order)
        for (since, _, at), group in groupby(steps, key=lambda entry: entry[0].order):
            changed = list(group)
            state = state | {index: step.state for step, index in changed}
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
        """Iterate over all known states of a file, the oldest first."""
        since, turn = 0.0, 0
        for step in self._found_steps(file):
            turn = turn + 1 if step.at <= since else 0
            since = max(since, step.at)
            yield step._replace(since=since, turn=turn)

    def _found_steps(self, file: int) -> list[_Step]:
        """Return the states with the times at which they were found; those without a time come first."""
        steps: list[_Step] = []
        for row in self._store.files.versions(file):
            growth = [(start, at) for start, at in self._store.files.growth(row.id) if start < row.archived_size]
            ends = [*(start for start, _ in growth), row.archived_size]
            first = _Step(row.archived_at or 0.0, row.origin, _state(row, ends[0]))
            if steps and row.origin == "created":
                # A log that was moved and changed at the same time, or copied, is a new file.
                change = self._change_between(steps[-1].state, first.state)
                first = first._replace(change=change) if change is not None else steps.pop()._replace(state=first.state)
            steps.append(first)
            steps += [_Step(at, "appended", _state(row, end)) for (_, at), end in zip(growth, ends[1:], strict=True)]
        return steps

    def _change_between(self, before: FileState, after: FileState) -> VersionChange | None:
        """Return how two files differ; None if they have the same bytes. Damaged bytes count as equal."""
        position, pieces = 0, self._store.files.intact_chunks(after.id)
        for length, piece in self._store.files.intact_chunks(before.id):
            length = min(length, before.size - position)
            _, data = next(pieces, (0, b""))
            if piece is not None and data is not None and data[: after.size - position][:length] != piece[:length]:
                return "rewritten"
            position += length
        return "appended" if after.size > before.size else None if after.size == before.size else "rewritten"

    def states(self, number: int) -> list[FileState]:
        """Return the files of a version."""
        if not 1 <= number <= len(self._states):
            known = f"versions 1 to {len(self._states)}" if self._states else "no versions"
            raise NotFoundError(f"{self._session.name} has {known}, not {number}")
        return [state for _, state in sorted(self._states[number - 1].items())]

    def changed(self, number: int) -> list[tuple[FileState | None, FileState]]:
        """Return the files that differ from the previous version, each before and after the change."""
        self.states(number)
        before = self._states[number - 2] if number > 1 else {}
        now = sorted(self._states[number - 1].items())
        return [(before.get(index), state) for index, state in now if before.get(index) != state]

    def folder_files(self, number: int) -> list[FileState]:
        """Return other files in the session's own folder, such as saved outputs, as of the time of a version."""
        found = []
        for file in self._store.files.in_session_folder(self._session.id):
            steps = [step for step in self._steps(file.id) if step.since <= self._times[number - 1]]
            found += [step.state for step in steps[-1:]]
        return found


def _state(row: FileRow, size: int) -> FileState:
    return FileState(row.id, row.agent, row.path, size)
