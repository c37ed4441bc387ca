"""What is on the disk, and what of it has changed since it was last seen."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from ..agents import AGENTS
from ..io.files import name_of
from ..store.rows import FileRow

_EDGE = 4096

Change = Literal["new", "grown", "rewritten", "moved", "touched"]


class Seen(NamedTuple):
    """A file as it is now."""

    agent: str
    path: Path
    device: int
    inode: int
    size: int
    changed: int


class Changed(NamedTuple):
    """A file that is not as it was."""

    seen: Seen
    how: Change
    before: FileRow | None


def walk(agent: str, root: Path) -> Iterator[Seen]:
    """All files that matter in an agent's folder."""
    rules = AGENTS[agent]
    for place in rules.info.places:
        path = root / place
        if path.is_dir():
            for folder, _, names in os.walk(path):
                inside = Path(folder)
                for name in names:
                    inner = inside / name
                    if rules.is_log(inner) and (seen := look(agent, inner)) is not None:
                        yield seen
        elif (seen := look(agent, path)) is not None:
            yield seen


def look(agent: str, path: Path) -> Seen | None:
    """A file, if it is there."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return Seen(agent, path, facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)


def compare(seen: Iterable[Seen], known: dict[str, FileRow]) -> tuple[list[Changed], list[FileRow]]:
    """What has changed, and which files are gone."""
    changes: list[Changed] = []
    missing = {path: row for path, row in known.items() if row.gone_at is None}
    fresh: list[Seen] = []
    for entry in seen:
        row = known.get(name_of(entry.path))
        if row is None:
            fresh.append(entry)
            continue
        missing.pop(row.path, None)
        if row.gone_at is None and (row.device, row.inode, row.size, row.changed) == entry[2:]:
            continue
        changes.append(Changed(entry, _how(entry, row), row))
    moved = {(row.device, row.inode): row for row in missing.values()}
    for entry in fresh:
        before = moved.get((entry.device, entry.inode))
        if before is not None and _how(entry, before) == "grown":
            del missing[before.path], moved[entry.device, entry.inode]
            changes.append(Changed(entry, "moved", before))
        else:
            changes.append(Changed(entry, "new", None))
    return changes, list(missing.values())


def _how(seen: Seen, row: FileRow) -> Change:
    """Whether a file only grew: then what was kept of it still stands at its beginning."""
    if seen.size >= row.kept and mark_of(seen.path, row.kept) == row.mark:
        return "grown"
    return "rewritten"


class Mark:
    """A digest of the first and the last of some bytes: whether a file still begins with them is asked often."""

    def __init__(self) -> None:
        self._first = b""
        self._last = b""

    def add(self, data: bytes) -> None:
        """The next bytes, in pieces of any size."""
        if len(self._first) < _EDGE:
            self._first += data[: _EDGE - len(self._first)]
        self._last = data[-_EDGE:] if len(data) >= _EDGE else (self._last + data)[-_EDGE:]

    def digest(self) -> bytes:
        """Of all that was added."""
        return hashlib.blake2b(self._first + self._last, digest_size=16).digest()


def mark_of(path: Path, length: int) -> bytes:
    """The mark of a file's first bytes; empty when they cannot be read."""
    mark = Mark()
    try:
        with open(path, "rb", buffering=0) as file:
            mark.add(file.read(min(_EDGE, length)))
            if length > _EDGE:
                file.seek(max(0, length - _EDGE))
                mark.add(file.read(_EDGE))
    except OSError:
        return b""
    return mark.digest()
