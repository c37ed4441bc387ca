"""Archives the bytes of the agents' logs. They stay in the archive if a log is truncated, rewritten or deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

from ..core import model as m
from ..core.errors import DamagedError, UnspoolError
from ..io.faults import report_fault
from ..io.lines import LineCheck
from ..io.sources import ByteStream, read_fully
from ..store import Store
from ..store.archive import ArchivedFile
from ..store.compression import pack
from ..store.messages import unpack_head
from ..store.rows import FileRow, Origin, StoredSession
from .scan import REPLACED, ChangedLog, LogStat, Mark, how_differs, mark_of, stat_log

CHUNK = 1 << 20
"""Number of bytes that are compressed together."""
_SEPARATE_SECONDS = 600.0
"""Lines that are appended to a followed session within this time count as one change of the file."""

Add = Callable[[Callable[[], None], int], None]
"""Accepts a write to the store, and its approximate size in bytes."""


class LogChangedError(UnspoolError):
    """A log changed while it was read. The next run reads it again."""


class PackedLog(NamedTuple):
    """A log whose bytes were compressed for the archive."""

    size: int
    """Number of bytes before compression."""
    mark: bytes


def pack_log(stat: LogStat, give: Callable[[int, int, bytes], None]) -> PackedLog:
    """Compress a new log, and pass each chunk to `give`, with its start and length. Raises OSError."""
    mark, start = Mark(), 0
    with _open(stat) as file:
        for data in _pieces(file, stat.size):
            mark.add(data)
            give(start, len(data), pack(data))
            start += len(data)
    return PackedLog(start, mark.digest())


def add_file_row(store: Store, stat: LogStat, log: PackedLog, at: float) -> int:
    """Add the row of a log whose chunks are about to be added; returns its id."""
    row = stat.row()._replace(archived_size=log.size, mark=log.mark, verified=log.size, archived_at=at)
    return store.files.put(row)


def archive_log(store: Store, change: ChangedLog, at: float, add: Add, *, is_followed: bool = False) -> Archiving:
    """Read a log now, and pass to `add` the writes that bring its archive up to date.

    Raises OSError or LogChangedError before the last write is added; the others must not be committed without it. A
    followed log has to be compared as a whole later, because only its last archived chunk is compared here.
    """
    stat, before = change.stat, change.before
    archiving = Archiving(store, change, at, is_followed)
    add(archiving.begin, 0)
    if change.how == "touched" and before is not None:
        add(partial(archiving.finish, before.archived_size, before.mark), 0)
        return archiving
    appends_to = before if change.how not in REPLACED else None
    start = appends_to.archived_size - appends_to.archived_size % CHUNK if appends_to is not None else 0
    with _open(stat) as file:
        if appends_to is not None:
            _check(store, file, stat, appends_to, start)
            file.seek(start)
        for data in _pieces(file, stat.size - start):
            add(partial(archiving.put, start, len(data), compressed := pack(data)), len(compressed))
            start += len(data)
        mark = mark_of(file, start)
    if appends_to is not None and start < appends_to.archived_size:
        raise LogChangedError(f"{stat.path} was truncated while it was read")
    add(partial(archiving.finish, start, mark), 0)
    return archiving


class Archiving:
    """A log that is being written to the archive."""

    id = 0
    """The id of its row, once that is written."""

    def __init__(self, store: Store, change: ChangedLog, at: float, is_followed: bool) -> None:
        self._store = store
        self._change = change
        self._at = at
        self._is_followed = is_followed

    def begin(self) -> None:
        """Create the row, unless the log only grew."""
        files, stat, before = self._store.files, self._change.stat, self._change.before
        if before is None:
            self.id = files.put(stat.row()._replace(archived_at=self._at))
        elif (how := self._change.how) in REPLACED:
            row = stat.row()._replace(archived_at=self._at, origin=cast("Origin", how))
            self.id = files.replace(before.id, self._at, row)
            if before.verified:
                # Bytes appended after the last full comparison may never have been in one file with those before them.
                files.put(before._replace(archived_size=before.verified))
        else:
            self.id = before.id
            if stat.size > before.archived_size:
                files.add_growth(
                    before.id, before.archived_size, self._at, _SEPARATE_SECONDS if self._is_followed else 0.0
                )

    def put(self, start: int, length: int, data: bytes) -> None:
        """Write a chunk."""
        self._store.files.put_chunk(self.id, start, length, data)

    def finish(self, size: int, mark: bytes) -> None:
        """Update the row. The new version is stored by now, so the previous one can be compressed against it."""
        files, before = self._store.files, self._change.before
        row = self._change.stat.row(files.get(self.id))
        files.put(row._replace(archived_size=size, mark=mark, verified=row.verified if self._is_followed else size))
        if before is not None and before.id != self.id:
            files.shrink(before.id, self.id)


@contextmanager
def _open(stat: LogStat) -> Iterator[ByteStream]:
    """Open a log; errors when opening or reading it are recorded with its path."""
    try:
        with stat.source.open() as file:
            yield file
    except OSError as error:
        report_fault(error, stat.path)
        raise


def _check(store: Store, file: ByteStream, stat: LogStat, row: FileRow, start: int) -> None:
    """Raise LogChangedError unless an open log still begins with its archived bytes.

    All of them were compared when the change was detected, and are compared again if the log has changed since. The
    last chunk is always compared, because it is about to be replaced.
    """
    is_same = stat.source.stamp() == stat[2:]
    file.seek(start if is_same else 0)
    archived = store.files.intact_chunks(row.id, start if is_same else 0)
    if how_differs(file, stat.size, row.archived_size, archived) not in ("grown", "touched"):
        raise LogChangedError(f"{stat.path} was rewritten while it was read")


def _pieces(file: ByteStream, size: int) -> Iterator[bytes]:
    """Yield the bytes of a log. Raises OSError at a line that readers refuse: a sparse file can be of any size."""
    check = LineCheck()
    while size > 0 and (data := read_fully(file, min(CHUNK, size))):
        check.add(data)
        size -= len(data)
        yield data


class ArchivedOriginals:
    """The archived sessions that a session was copied from, for use after their files were deleted.

    While the files exist, a reader finds copied messages by itself. Without them, a fork would claim the copied
    messages as its own, and they would be counted twice.
    """

    def __init__(self, store: Store, agent: str, stored: StoredSession | None) -> None:
        """`stored` is the copy as the store has it; None if it is new."""
        self._store = store
        self._agent = agent
        self._stored = stored

    def origin(self) -> m.Origin | None:
        """Return the stored origin of the session, if that is a session that only the store still has."""
        origin = self._origin_in(self._stored.id) if self._stored is not None else None
        if origin is None or origin.session is None or not self._files_of(origin.session):
            return None
        return origin

    def origin_of(self, session: str) -> m.Origin | None:
        """Return the stored origin of another session."""
        known = self._store.sessions.summary(self._agent, session)
        return self._origin_in(known.id) if known is not None else None

    def _origin_in(self, id: int) -> m.Origin | None:
        head, patches = self._store.messages.packed_head(id)
        if not head:
            return None
        try:
            return unpack_head(head, patches)[0].info.origin
        except DamagedError:
            return None

    def lines_of(self, session: str) -> Iterator[bytes]:
        """Iterate over the log of a session that only the store still has, in pieces of whole lines."""
        for file in self._files_of(session):
            rest: list[bytes] = []
            for data in self._store.files.chunks(file.id):
                if end := data.rfind(b"\n") + 1:
                    yield b"".join([*rest, data[:end]])
                    rest.clear()
                rest.append(data[end:])
            yield b"".join(rest)

    def _files_of(self, session: str) -> list[ArchivedFile]:
        """Return the archived files of a session; an empty list if any of them is still on disk."""
        known = self._store.sessions.summary(self._agent, session)
        files = self._store.files.of_session(known.id) if known is not None else []
        try:
            return [] if any(stat_log(self._agent, Path(file.path)) for file in files) else files
        except OSError as error:
            # Whether the file still exists is unknown.
            report_fault(error)
            return []
