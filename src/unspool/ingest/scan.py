"""Finds logs that have changed, by comparing the disk with the archive."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from ..agents import AGENTS, SessionRef, SessionSource
from ..core.decisions import main_session
from ..io.faults import collect_faults
from ..io.files import name_of
from ..io.sources import ByteStream, LineFile, LogSource, Stamp, read_fully
from ..store.decision_log import UNKNOWN, decision_mark
from ..store.rows import FileRow

_EDGE = 4096
_VERIFIED_AT_ONCE = 1 << 30
"""Maximum bytes of logs that one run compares although they look unchanged: while followed, they were not verified."""

Change = Literal["new", "grown", "touched", "moved", "truncated", "edited", "rewritten"]
"""`touched` means that the bytes are the same, `edited` that they differ but not in number."""
_MARKS = re.compile(r"(\|[0-9a-f?]+)*")
"""The end of a fingerprint: the marks of decisions."""
REPLACED: tuple[Change, ...] = ("truncated", "edited", "rewritten")
"""Changes that create a new version."""
Chunks = Iterable[tuple[int, bytes | None]]
"""Archived bytes: the length of each chunk, and the bytes unless they are damaged."""
ArchivedBytes = Callable[[int], Chunks]
"""Returns the archived bytes of a file by its id."""


class LogStat(NamedTuple):
    """The current state of a log."""

    agent: str
    source: LogSource
    device: int
    inode: int
    size: int
    changed: int
    ctime: int

    @property
    def path(self) -> Path:
        """The path that identifies the log."""
        return self.source.path

    def row(self, before: FileRow | None = None) -> FileRow:
        """Return the row for the archive, with the data about archived bytes from `before`."""
        known = before or FileRow(0, "", "", 0, 0, 0, 0, 0, b"")
        return known._replace(
            agent=self.agent,
            path=name_of(self.path),
            device=self.device,
            inode=self.inode,
            size=self.size,
            changed=self.changed,
            ctime=self.ctime,
            gone_at=None,
        )

    def is_known_as(self, row: FileRow) -> bool:
        """Whether its state is the one that was recorded."""
        if row.gone_at is not None or row.archived_size != row.size:
            return False
        known = (row.device, row.inode, row.size, row.changed, row.ctime or self.ctime)
        return known == (self.device, self.inode, self.size, self.changed, self.ctime)


class ChangedLog(NamedTuple):
    """A log that has changed."""

    stat: LogStat
    how: Change
    before: FileRow | None

    @property
    def is_new_on_disk(self) -> bool:
        """Whether the log is a file on disk, not rows of a database, and its content changed."""
        return self.how != "touched" and self.stat.inode != 0


class Scan(NamedTuple):
    """The result of comparing an agent's folder with the archive."""

    changes: list[ChangedLog]
    missing: list[FileRow]
    """Files that are gone."""
    unreadable: dict[Path, OSError]
    """Files and folders that exist, but whose state is unknown."""

    @property
    def has_lost(self) -> bool:
        """Whether a file is gone, or no longer has the bytes that were archived."""
        return bool(self.missing) or any(change.how in REPLACED for change in self.changes)


def session_fingerprint(home: SessionSource, ref: SessionRef) -> str:
    """Return a fingerprint of what affects a session apart from its own files, including the decisions of people."""
    return home.fingerprint(ref) + decision_mark(ref.agent, main_session(ref.id))


def without_decisions(fingerprint: str) -> str:
    """Return the fingerprint of a session that had to be read without the decisions about it."""
    return fingerprint.removesuffix(UNKNOWN) + UNKNOWN


def is_same_fingerprint(before: str, now: str) -> bool:
    """Whether nothing that affects a session has changed, as far as that is known."""
    if not now.endswith(UNKNOWN):
        return before == now
    known = now.removesuffix(UNKNOWN)
    return before.startswith(known) and _MARKS.fullmatch(before, len(known)) is not None


def stat_log(agent: str, path: Path, known: FileRow | None = None) -> LogStat | None:
    """Return the current state of a log; None if it is gone. Raises OSError."""
    return _stat(agent, AGENTS[agent].log(path), known)


def _stat(agent: str, source: LogSource, known: FileRow | None) -> LogStat | None:
    before = Stamp(known.device, known.inode, known.size, known.changed, known.ctime) if known is not None else None
    stamp = source.stamp(before)
    return LogStat(agent, source, *stamp) if stamp is not None else None


def compare(
    agent: str,
    sources: Iterable[LogSource],
    known: dict[str, FileRow],
    archived: ArchivedBytes,
    on_new: Callable[[LogStat], None] | None = None,
) -> Scan:
    """Find the logs that have changed, and the files that are gone. `on_new` is called for each log without a row."""
    return _Comparison(agent, known, archived, on_new).run(sources)


class _Comparison:
    """One comparison of a folder with the archive."""

    def __init__(
        self,
        agent: str,
        known: dict[str, FileRow],
        archived: ArchivedBytes,
        on_new: Callable[[LogStat], None] | None,
    ) -> None:
        self._agent = agent
        self._on_new = on_new
        self._known = known
        self._archived = archived
        self._missing = {path: row for path, row in known.items() if row.gone_at is None}
        self._fresh: list[LogStat] = []
        self._changes: list[ChangedLog] = []
        self._left = _VERIFIED_AT_ONCE

    def run(self, sources: Iterable[LogSource]) -> Scan:
        with collect_faults() as faults:
            for source in sources:
                try:
                    self._look_at(source)
                except OSError as error:
                    faults.note(error, source.path)
            unknown = {name_of(path) for path in faults.errors}
            missing = {row.id: row for row in self._missing.values() if not is_below(row.path, unknown)}
            self._find_moved(missing)
        return Scan(self._changes, list(missing.values()), faults.errors)

    def _look_at(self, source: LogSource) -> None:
        row = self._known.get(name_of(source.path))
        entry = _stat(self._agent, source, row)
        if entry is None:
            return
        if row is None:
            self._fresh.append(entry)
            if self._on_new is not None:
                self._on_new(entry)
            return
        self._missing.pop(row.path, None)
        if entry.is_known_as(row):
            if row.verified == row.archived_size or self._left < row.archived_size:
                return
            self._left -= row.archived_size
        how = how_changed(entry, row, self._archived(row.id))
        self._changes.append(ChangedLog(entry, "grown" if how == "touched" and row.gone_at is not None else how, row))

    def _find_moved(self, missing: dict[int, FileRow]) -> None:
        """Distinguish new logs from moved ones, and remove the latter from `missing`."""
        moved = {(row.device, row.inode): row for row in missing.values() if row.inode}
        for entry in self._fresh:
            before = moved.get((entry.device, entry.inode))
            if before is not None and how_changed(entry, before, self._archived(before.id)) in ("grown", "touched"):
                del moved[entry.device, entry.inode]
                del missing[before.id]
                self._changes.append(ChangedLog(entry, "moved", before))
            else:
                self._changes.append(ChangedLog(entry, "new", None))


def share_paths(changed: dict[Path, ChangedLog], paths: Iterable[Path]) -> None:
    """Replace the paths of logs with equal objects from `paths`, to save memory: the duplicates are freed."""
    for path in paths:
        change = changed.pop(path, None)
        if change is not None:
            changed[path] = change
            if isinstance(change.stat.source, LineFile):
                change.stat.source.path = path


def is_below(path: str, folders: Collection[str]) -> bool:
    """Whether a path is one of some folders, or inside one of them."""
    return bool(folders) and (path in folders or any(folder in folders for folder in folders_above(path)))


def folders_above(path: str) -> Iterator[str]:
    """Iterate over the folders that a path is inside of, the nearest first."""
    for position in range(len(path) - 1, 0, -1):
        if path[position] in "/\\":
            yield path[:position]


def how_changed(stat: LogStat, row: FileRow, archived: Chunks) -> Change:
    """Return how the bytes of a log differ from the archived ones. Raises OSError."""
    with stat.source.open() as file:
        return how_differs(file, stat.size, row.archived_size, archived)


def how_differs(file: ByteStream, size: int, archived_size: int, archived: Chunks) -> Change:
    """Return the same for an open file. Damaged bytes in the archive count as equal, so that they can be repaired."""
    other: Change = "edited" if size == archived_size else "rewritten"
    for length, data in archived:
        found = read_fully(file, length)
        if len(found) == length and data in (found, None):
            continue
        return "truncated" if len(found) < length and (data is None or data.startswith(found)) else other
    return "grown" if size > archived_size else "touched"


class Mark:
    """A digest of the first and last bytes of a log, which is cheap to compute again when the log may have grown."""

    def __init__(self) -> None:
        self._first = b""
        self._last = b""

    def add(self, data: bytes) -> None:
        """Add the next bytes, in pieces of any size."""
        if len(self._first) < _EDGE:
            self._first += data[: _EDGE - len(self._first)]
        self._last = data[-_EDGE:] if len(data) >= _EDGE else (self._last + data)[-_EDGE:]

    def digest(self) -> bytes:
        """Return the digest of everything that was added."""
        return hashlib.blake2b(self._first + self._last, digest_size=16).digest()


def mark_of(file: ByteStream, length: int) -> bytes:
    """Return the mark of a file's first `length` bytes. Raises OSError."""
    mark = Mark()
    file.seek(0)
    mark.add(read_fully(file, min(_EDGE, length)))
    if length > _EDGE:
        file.seek(max(0, length - _EDGE))
        mark.add(read_fully(file, _EDGE))
    return mark.digest()
