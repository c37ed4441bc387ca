"""Restores archived files, byte for byte."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from ..agents import agent_named
from ..core.errors import DamagedError
from ..store import Store
from ..store.private_files import make_private_folder, open_private
from ..store.rows import SessionRow
from .history import FileState, History


class RestoredFile(NamedTuple):
    """A file that was restored."""

    to: Path
    path: str
    """Its path when it was archived."""
    size: int


def restore_session(store: Store, session: SessionRow, target: Path, version: int | None = None) -> list[RestoredFile]:
    """Write the files of a session below a folder, in the layout that the agent uses.

    Other files in the session's own folder are included: saved outputs, notes on sub-agents. `version` is the number
    of an earlier state, see `History`.
    """
    if version is not None:
        history = History(store, session)
        files = [*history.states(version), *history.folder_files(version)]
    else:
        archived = (*store.files.of_session(session.id), *store.files.in_session_folder(session.id))
        files = [FileState(file.id, file.agent, file.path, store.files.get(file.id).archived_size) for file in archived]
    written = []
    for file in files:
        # Earlier versions of unspool stored rows for files that could never be read.
        if file.size or not store.files.get(file.id).size:
            written.append(RestoredFile(target / _layout(file.agent, file.path), file.path, file.size))
            _write(store, file, written[-1].to)
    return written


def _write(store: Store, file: FileState, path: Path) -> None:
    """Write a file under a temporary name, and rename it once it is complete."""
    make_private_folder(path.parent)
    if path.exists():
        raise FileExistsError(17, "File exists", str(path))
    # The name may be as long as the file system allows.
    part = path.with_name(f".{blake2b(os.fsencode(path.name), digest_size=8).hexdigest()}.part")
    part.unlink(missing_ok=True)
    try:
        left = file.size
        with open_private(part, "xb") as out:
            for data in store.files.chunks(file.id):
                left -= out.write(data[:left])
                if not left:
                    break
        if left:
            raise DamagedError(f"the store has only {file.size - left:,} of {file.size:,} bytes of {file.path}")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _layout(agent: str, path: str) -> Path:
    """Return the path of a file in a home directory, starting at the agent's folder."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", "..")]
    known = agent_named(agent)
    names = {relative.split("/")[0] for relative in known.info.paths}
    # Folders above the agent's may have the same names as those inside it.
    starts = [index for index in reversed(range(len(parts))) if parts[index] in names]
    in_folder = [index for index in starts if index and parts[index - 1] == known.info.folder]
    root = len(known.root_of(Path(*parts)).parts)
    in_root = [index for index in starts if index == root]
    start = [*in_folder, *in_root, *starts, len(parts) - 1][0]
    return Path(known.info.folder, *parts[start:])
