"""Compares the logs on disk with what is known of them, to find what has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from ..agents import AGENTS
from ..io.files import name_of
from ..io.sources import LogSource, Stamp
from ..store.rows import FileRow

_EDGE = 4096

Change = Literal["new", "grown", "rewritten", "moved"]


class Seen(NamedTuple):
    """A log as it is now."""

    agent: str
    source: LogSource
    device: int
    inode: int
    size: int
    changed: int

    @property
    def path(self) -> Path:
        """What identifies the log."""
        return self.source.path


class Changed(NamedTuple):
    """A log that is not as it was."""

    seen: Seen
    how: Change
    before: FileRow | None


def look(agent: str, path: Path, known: FileRow | None = None) -> Seen | None:
    """A log as it is now; None when it is gone."""
    return _seen(agent, AGENTS[agent].log(path), known)


def _seen(agent: str, source: LogSource, known: FileRow | None) -> Seen | None:
    before = Stamp(known.device, known.inode, known.size, known.changed) if known is not None else None
    stamp = source.stamp(before)
    return Seen(agent, source, *stamp) if stamp is not None else None


def compare(agent: str, sources: Iterable[LogSource], known: dict[str, FileRow]) -> tuple[list[Changed], list[FileRow]]:
    """The logs that have changed, and the files that are gone."""
    changes: list[Changed] = []
    missing = {path: row for path, row in known.items() if row.gone_at is None}
    fresh: list[Seen] = []
    for source in sources:
        row = known.get(name_of(source.path))
        entry = _seen(agent, source, row)
        if entry is None:
            continue
        if row is None:
            fresh.append(entry)
            continue
        missing.pop(row.path, None)
        if row.gone_at is None and (row.device, row.inode, row.size, row.changed) == entry[2:]:
            continue
        changes.append(Changed(entry, _how(entry, row), row))
    moved = {(row.device, row.inode): row for row in missing.values() if row.inode}
    for entry in fresh:
        before = moved.get((entry.device, entry.inode))
        if before is not None and _how(entry, before) == "grown":
            del missing[before.path], moved[entry.device, entry.inode]
            changes.append(Changed(entry, "moved", before))
        else:
            changes.append(Changed(entry, "new", None))
    return changes, list(missing.values())


def _how(seen: Seen, row: FileRow) -> Change:
    """Whether a log only grew: it still begins with the bytes that were archived."""
    if seen.size >= row.kept and mark_of(seen.source, row.kept) == row.mark:
        return "grown"
    return "rewritten"


class Mark:
    """A digest of the first and last few of some bytes: cheap to compute again for a log that may have grown."""

    def __init__(self) -> None:
        self._first = b""
        self._last = b""

    def add(self, data: bytes) -> None:
        """Add the next bytes, in pieces of any size."""
        if len(self._first) < _EDGE:
            self._first += data[: _EDGE - len(self._first)]
        self._last = data[-_EDGE:] if len(data) >= _EDGE else (self._last + data)[-_EDGE:]

    def digest(self) -> bytes:
        """The digest of everything that was added."""
        return hashlib.blake2b(self._first + self._last, digest_size=16).digest()


def mark_of(source: LogSource, length: int) -> bytes:
    """The mark of a log's first `length` bytes; empty when they cannot be read."""
    mark = Mark()
    try:
        with source.open() as stream:
            mark.add(stream.read(min(_EDGE, length)))
            if length > _EDGE:
                stream.seek(max(0, length - _EDGE))
                mark.add(stream.read(_EDGE))
    except OSError:
        return b""
    return mark.digest()
