"""Rebuilds a store whose database has damaged pages: the readable part is copied to a new one, which replaces it."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from ..core.errors import UnspoolError
from ..store import Store
from ..store.filters import SessionFilter
from ..store.rows import SessionRow
from ..store.transfer import copy_annotations, copy_file, copy_forgotten, copy_summary, ids_in
from .push import copy_session


def copy_readable(damaged: Store, new: Store) -> int:
    """Copy the sessions and files of this machine that can be read; returns the number of sessions.

    A session whose messages are damaged is copied without them: they can be read from its archived files again. One
    that is missing altogether is found by the next sync, if it is on disk.
    """
    _copy_files(damaged, new)
    copied = 0
    for id in ids_in(damaged, "session"):
        with suppress(UnspoolError):
            for row in damaged.sessions.select(SessionFilter(machine=damaged.machine, ids=(id,))):
                copied += _copy(damaged, new, row)
    with new.transaction():
        for known in new.files.all().values():
            # The next sync compares it with the disk, and looks for sessions that could not be copied.
            new.files.put(known._replace(verified=0))
    with suppress(UnspoolError), new.transaction():
        copy_forgotten(damaged, new)
    with suppress(UnspoolError), new.transaction():
        copy_annotations(damaged, new)
    return copied


def _copy_files(damaged: Store, new: Store) -> None:
    """Copy all files. Earlier versions are copied with the version that replaced them, or alone if that fails."""
    versions: dict[int, list[int]] = {}
    for file in ids_in(damaged, "file"):
        versions[file] = [file]
        with suppress(UnspoolError):
            versions[file] = [row.id for row in damaged.files.versions(file)]
    earlier = {id for ids in versions.values() for id in ids[:-1]}
    copied: set[int] = set()
    for file in sorted(versions, key=lambda id: (id in earlier, id)):
        if file not in copied:
            copied.update(_copy_file(damaged, new, versions[file]))


def _copy_file(damaged: Store, new: Store, versions: list[int]) -> list[int]:
    """Copy the last of some versions, with the others if possible; returns those that were copied."""
    for alone in (False, True):
        with suppress(UnspoolError), new.transaction():
            copy_file(damaged, new, versions[-1], alone=alone)
            return versions[-1:] if alone else versions
    return []


def _copy(damaged: Store, new: Store, row: SessionRow) -> bool:
    for copy in (copy_session, _copy_without_messages):
        with suppress(UnspoolError), new.transaction():
            copy(damaged, new, row)
            return True
    return False


def _copy_without_messages(damaged: Store, new: Store, row: SessionRow) -> None:
    copy = new.sessions.create(row.agent, row.name, row.ref)
    copy_summary(damaged, new, row.id, copy)
    files = [new.files.at(file.path) for file in damaged.files.of_session(row.id)]
    new.files.set_for_session(copy, [file.id for file in files if file is not None])


def replace_database(new: Path, path: Path) -> Path:
    """Replace a database with a new one; both must be closed. Returns the new path of the old one."""
    damaged = path.with_name(f"{path.name}-damaged-{int(time.time())}")
    for suffix in ("-wal", "-shm", ""):
        old = path.with_name(path.name + suffix)
        if old.exists():
            old.rename(damaged.with_name(damaged.name + suffix))
    new.rename(path)
    return damaged
