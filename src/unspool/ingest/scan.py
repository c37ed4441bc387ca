"""Compares the logs on disk with what is known of them, to find what has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from ..agents import AGENTS, SessionRef, SessionSource
from ..core.decisions import main_session
from ..io.files import name_of
from ..io.sources import LogSource, Stamp
from ..store.decision_log import decision_mark
from ..store.rows import FileRow

_EDGE = 4096

Change = Literal["new", "grown", "rewritten", "moved"]


class LogStat(NamedTuple):
    """The current state of a log."""

    agent: str
    source: LogSource
    device: int
    inode: int
    size: int
    changed: int

    @property
    def path(self) -> Path:
        """The path that identifies the log."""
        return self.source.path


class ChangedLog(NamedTuple):
    """A log that has changed."""

    stat: LogStat
    how: Change
    before: FileRow | None


def surroundings(home: SessionSource, ref: SessionRef) -> str:
    """Return a fingerprint of what shapes a session besides its own files, decisions of people included."""
    return home.fingerprint(ref) + decision_mark(ref.agent, main_session(ref.id))


def stat_log(agent: str, path: Path, known: FileRow | None = None) -> LogStat | None:
    """Return the current state of a log; None if it is gone."""
    return _stat(agent, AGENTS[agent].log(path), known)


def _stat(agent: str, source: LogSource, known: FileRow | None) -> LogStat | None:
    before = Stamp(known.device, known.inode, known.size, known.changed) if known is not None else None
    stamp = source.stamp(before)
    return LogStat(agent, source, *stamp) if stamp is not None else None


def compare(
    agent: str, sources: Iterable[LogSource], known: dict[str, FileRow]
) -> tuple[list[ChangedLog], list[FileRow]]:
    """Return the logs that have changed, and the files that are gone."""
    changes: list[ChangedLog] = []
    missing = {path: row for path, row in known.items() if row.gone_at is None}
    fresh: list[LogStat] = []
    for source in sources:
        row = known.get(name_of(source.path))
        entry = _stat(agent, source, row)
        if entry is None:
            continue
        if row is None:
            fresh.append(entry)
            continue
        missing.pop(row.path, None)
        if row.gone_at is None and (row.device, row.inode, row.size, row.changed) == entry[2:]:
            continue
        changes.append(ChangedLog(entry, _how(entry, row), row))
    moved = {(row.device, row.inode): row for row in missing.values() if row.inode}
    for entry in fresh:
        before = moved.get((entry.device, entry.inode))
        if before is not None and _how(entry, before) == "grown":
            del missing[before.path], moved[entry.device, entry.inode]
            changes.append(ChangedLog(entry, "moved", before))
        else:
            changes.append(ChangedLog(entry, "new", None))
    return changes, list(missing.values())


def _how(stat: LogStat, row: FileRow) -> Change:
    """Return whether a log only grew, that is, still begins with the bytes that were archived."""
    if stat.size >= row.kept and mark_of(stat.source, row.kept) == row.mark:
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
