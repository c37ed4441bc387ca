"""Chooses between copies of a session in several folders of an agent, such as a home directory and its backup.

A session is stored once. The copy with the latest message counts, because the agent continued that one. If several
copies have it, the session stays where it is: a copy that was only made later contains nothing new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from ..agents import AGENTS, SessionRef, SessionSource
from ..io.faults import collect_faults
from ..io.files import is_inside, name_of
from ..io.listing import may_exist
from ..store import Store
from ..store.rows import StoredSession
from .folder_ingest import paths_of
from .transactions import concerns_session


class CopyFolder(Protocol):
    """The sessions of one folder that have to be read, and those that it has."""

    agent: str
    home: SessionSource
    listed: frozenset[str]
    listed_elsewhere: frozenset[str]

    def refs(self) -> list[SessionRef]:
        """Return the sessions that have to be read."""
        ...

    def leave_out(self, ids: set[str]) -> None:
        """Drop sessions that are read from another folder."""
        ...


class OtherCopies:
    """The copies in other folders that sessions were last read from."""

    def __init__(self, home: SessionSource, files: Mapping[str, Collection[str | None]]) -> None:
        """`files` are the paths that each session was read from; None for a path that is gone."""
        self._home = home
        self._root = name_of(home.root)
        self._files = files
        self._sources: dict[Path, SessionSource] = {}

    def are_current(self, ref: SessionRef) -> bool:
        """Whether a session was read from another folder and stays there, because its copy here is not newer.

        It also stays if either of them cannot be read now.
        """
        paths = self._files.get(ref.id, ())
        outside = [path for path in paths if path is not None and not is_inside(path, self._root)]
        if not outside or len(outside) < len(paths):
            return False
        with collect_faults() as faults:
            other = self._find(ref, Path(min(outside)))
            is_current = other is not None and self._is_current(ref, *other)
        return is_current or bool(faults.errors)

    def _find(self, ref: SessionRef, path: Path) -> tuple[SessionSource, SessionRef] | None:
        """Return the copy that a file belongs to; None if it is gone."""
        if not may_exist(path):
            return None
        root = AGENTS[ref.agent].root_of(path)
        if root not in self._sources:
            self._sources[root] = AGENTS[ref.agent].open(root)
        found = self._sources[root].ref(path)
        return (self._sources[root], found) if found is not None and found.id == ref.id else None

    def _is_current(self, ref: SessionRef, home: SessionSource, other: SessionRef) -> bool:
        # Most copies are exact ones, and need not be opened.
        return _stamps(ref) == _stamps(other) or _end(self._home, ref) <= _end(home, other)


def was_read_from(store: Store, session: StoredSession, ref: SessionRef) -> bool:
    """Whether a stored session was read from these files, not from a copy in another folder."""
    return {file.path for file in store.files.of_session(session.id)} == set(map(name_of, paths_of(ref)))


def choose_copies(folders: Iterable[CopyFolder]) -> None:
    """Let each session be read from one folder only, if several of them have to be read."""
    by_agent: dict[str, list[CopyFolder]] = {}
    for folder in folders:
        by_agent.setdefault(folder.agent, []).append(folder)
    for several in by_agent.values():
        if len(several) > 1:
            _choose(several)


def _choose(folders: list[CopyFolder]) -> None:
    found: dict[str, list[tuple[CopyFolder, SessionRef]]] = {}
    for folder in folders:
        folder.listed_elsewhere = frozenset[str]().union(*(other.listed for other in folders if other is not folder))
        for ref in folder.refs():
            if ref.id in folder.listed_elsewhere:
                found.setdefault(ref.id, []).append((folder, ref))
    # The first one, if several end at the same time.
    chosen = {id: max(copies, key=lambda copy: _end(copy[0].home, copy[1]))[0] for id, copies in found.items()}
    for folder in folders:
        folder.leave_out({ref.id for ref in folder.refs() if chosen.get(ref.id, folder) is not folder})


def _end(home: SessionSource, ref: SessionRef) -> float:
    """Return the time of the last message of a session; that of one without any is before all others."""
    try:
        ended = home.peek(ref).ended_at
    except Exception as error:
        if isinstance(error, OSError) or not concerns_session(error):
            raise
        ended = None
    return ended.timestamp() if ended is not None else float("-inf")


def _stamps(ref: SessionRef) -> list[tuple[int, int] | None]:
    """Return the size and time of each file of a session. Raises OSError."""
    stamps = (AGENTS[ref.agent].log(path).stamp() for path in paths_of(ref))
    return [(stamp.size, stamp.changed) if stamp is not None else None for stamp in stamps]
