"""Finds changes on disk since the last sync without reading files, so that lists can take the rest from the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..agents import AGENTS, SessionRef
from ..core.errors import UnspoolError
from ..io.faults import collect_faults
from ..io.files import is_inside, name_of
from ..io.sources import FileStamp
from ..library import Library
from ..store import Store
from ..store.rows import SessionRow

_MOST = 200
"""Maximum number of changed files to look up one by one. With more, listing everything takes about as long."""


class DiskChanges(NamedTuple):
    """The differences between the disk and the store."""

    sessions: dict[tuple[str, str], SessionRef]
    """Sessions with new or changed files, by agent and id."""
    missing: frozenset[str]
    """Stored files that are not on disk."""
    roots: tuple[str, ...]
    """The agents' folders that were compared."""

    def has(self, path: str) -> bool:
        """Whether a stored file still exists in one of the folders."""
        return path not in self.missing and any(is_inside(path, root) for root in self.roots)


def changes_since_sync(store: Store, library: Library) -> DiskChanges | None:
    """Compare the state of all files with that of the last sync; None if everything has to be listed to be certain."""
    # There may be very many files, so nothing is stored about unchanged ones.
    known = store.files.stamps()
    left = set(known)
    unreadable = set(store.files.unreadable())
    refs: dict[tuple[str, str], SessionRef] = {}
    seen: set[str] = set()
    try:
        with collect_faults() as faults:
            homes = [(agent, root, _changed(agent, root, known, left)) for agent, root in library.homes()]
            roots = tuple(name_of(root) for _, root, _ in homes)
            for agent, root, changed in homes:
                changed.update(path for path in unreadable if is_inside(path, name_of(root)))
                seen |= changed
                if len(changed) > _MOST or (changed and not _add_refs(refs, agent, root, changed)):
                    return None
    except OSError:
        # Whether anything changed there is unknown. A complete list skips what cannot be read.
        return None
    if faults.errors:
        return None
    missing = {stamp[0] for stamp in left if any(is_inside(stamp[0], root) for root in roots)} - seen
    return DiskChanges(refs, frozenset(missing), roots)


def copies_of(store: Store, library: Library, changes: DiskChanges, rows: Iterable[SessionRow]) -> Iterator[SessionRef]:
    """Yield the copies, in the folders that were compared, of sessions that were imported from other folders."""
    by_name: dict[str, list[str]] = {}
    for path, file in store.files.all().items():
        if file.gone_at is None and changes.has(path):
            by_name.setdefault(Path(path).name, []).append(path)
    for row in rows:
        paths = (path for file in store.files.of_session(row.id) for path in by_name.get(Path(file.path).name, ()))
        for path in paths:
            with suppress(OSError, UnspoolError):
                ref = library.ref_of(Path(path))
                if (ref.agent, ref.id) == (row.agent, row.name):
                    yield ref
                    break


def _changed(agent: str, root: Path, known: set[FileStamp], left: set[FileStamp]) -> set[str]:
    """Return the paths of new and changed files, and remove unchanged ones from `left`."""
    changed = set()
    for stamp in AGENTS[agent].stamps(root) if root.is_dir() else ():
        try:
            left.remove(stamp)
        except KeyError:
            # The file may be in two of the folders, and was removed for the first one.
            if stamp not in known:
                changed.add(stamp[0])
    return changed


def _add_refs(refs: dict[tuple[str, str], SessionRef], agent: str, root: Path, changed: set[str]) -> bool:
    """Add the sessions of changed files to `refs`; returns False if other sessions may have changed as well."""
    source = AGENTS[agent].open(root)
    for path in map(Path, sorted(changed)):
        ref = None
        with suppress(OSError):
            # Files directly in the agent's folder affect sessions, but contain none.
            ref = source.ref(path) if path.parent != root else None
        if ref is not None and source.contains(ref):
            refs[agent, ref.id] = ref
        elif AGENTS[agent].shapes_lists(path):
            return False
    return True
