"""Archives the bytes of the agents' logs, and restores them exactly as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..agents import agent_named
from ..core import model as m
from ..core.errors import DamagedError
from ..io.files import name_of
from ..store import Store
from ..store.archive import ArchivedFile
from ..store.compression import pack
from ..store.messages import unpack_head
from ..store.private_files import make_private_folder, open_private
from ..store.rows import FileRow, StoredSession
from .scan import ChangedLog, LogStat, Mark, mark_of, stat_log

CHUNK = 1 << 20
"""How many bytes are compressed together."""


class Packed(NamedTuple):
    """All bytes of a log, compressed for the archive."""

    chunks: list[tuple[int, bytes]]
    """The length of each before compression, and the compressed bytes."""
    mark: bytes

    @property
    def kept(self) -> int:
        """How many bytes there are, before compression."""
        return sum(length for length, _ in self.chunks)


def packed(stat: LogStat) -> Packed:
    """Compress a log that is new to the archive."""
    chunks: list[tuple[int, bytes]] = []
    mark = Mark()
    for data in _pieces(stat, 0, b""):
        mark.add(data)
        chunks.append((len(data), pack(data)))
    return Packed(chunks, mark.digest())


def keep_new(store: Store, stat: LogStat, ready: Packed) -> FileRow:
    """Put a compressed log into the archive."""
    row = FileRow(0, stat.agent, name_of(stat.path), *stat[2:], ready.kept, ready.mark, None)
    row = row._replace(id=store.files.put(row))
    start = 0
    for length, data in ready.chunks:
        store.files.add_chunk(row.id, start, length, data)
        start += length
    return row


def keep(store: Store, change: ChangedLog) -> FileRow:
    """Bring the archive of a log up to date."""
    stat, before = change.stat, change.before
    if before is None and stat.size <= CHUNK:
        return keep_new(store, stat, packed(stat))
    if before is None or (change.how == "rewritten" and stat.size < before.size):
        if before is not None:
            # Only the archive still has what was cut off.
            store.files.mark_replaced(before.id)
        row = FileRow(0, stat.agent, name_of(stat.path), *stat[2:], 0, b"", None)
        row = row._replace(id=store.files.put(row))
    else:
        row = before._replace(path=name_of(stat.path))
        if change.how == "rewritten":
            store.files.remove_chunks(row.id)
            row = row._replace(kept=0)
    kept = _append(store, row, stat)
    row = row._replace(
        agent=stat.agent, device=stat.device, inode=stat.inode, size=stat.size, changed=stat.changed,
        kept=kept, mark=mark_of(stat.source, kept), gone_at=None,
    )  # fmt: skip
    store.files.put(row)
    return row


def _append(store: Store, row: FileRow, stat: LogStat) -> int:
    """Add what is new. It is compressed together with the last, incomplete chunk, which compresses better."""
    start = row.kept - row.kept % CHUNK
    rest = b"".join(store.files.chunks(row.id, start))[: row.kept - start] if row.kept > start else b""
    if rest and stat.size <= row.kept:
        return row.kept
    if rest:
        store.files.remove_chunks(row.id, start)
    for data in _pieces(stat, start, rest):
        store.files.add_chunk(row.id, start, len(data), pack(data))
        start += len(data)
    return start


def _pieces(stat: LogStat, start: int, rest: bytes) -> Iterator[bytes]:
    data = rest
    try:
        with stat.source.open() as file:
            file.seek(start + len(rest))
            left = stat.size - start - len(rest)
            while left > 0 and (more := file.read(min(CHUNK - len(data), left))):
                left -= len(more)
                data += more
                if len(data) == CHUNK:
                    yield data
                    data = b""
    except OSError:
        # It is gone, or cannot be read: what was archived of it before stays.
        pass
    if data:
        yield data


class ArchivedOriginals:
    """Sessions that one session was copied from, as the store has them after their files were deleted.

    With the files, a reader would find out by itself. Without them, a fork would claim the copied messages, and they
    would be counted in both.
    """

    def __init__(self, store: Store, agent: str, stored: StoredSession | None) -> None:
        """`stored` is the copy; None if it is new."""
        self._store = store
        self._agent = agent
        self._stored = stored

    def origin(self) -> m.Origin | None:
        """Return how the session began, as it was stored, if it continues one that only the store still has."""
        head, patches = self._store.messages.packed_head(self._stored.id) if self._stored is not None else (b"", b"")
        if not head:
            return None
        try:
            origin = unpack_head(head, patches)[0].info.origin
        except DamagedError:
            return None
        return origin if origin.session is not None and self._files_of(origin.session) else None

    def lines_of(self, session: str) -> Iterator[bytes]:
        """Iterate over the log of a session that only the store still has, in pieces of whole lines."""
        for file in self._files_of(session):
            rest = b""
            for data in self._store.files.chunks(file.id):
                lines, newline, rest = (rest + data).rpartition(b"\n")
                yield lines + newline
            yield rest

    def _files_of(self, session: str) -> list[ArchivedFile]:
        """Return the archived files of a session; none if one of them is still on the disk."""
        known = self._store.sessions.summary(self._agent, session)
        files = self._store.files.of_session(known.id) if known is not None else []
        return [] if any(stat_log(self._agent, Path(file.path)) for file in files) else files


def restore_session(store: Store, session: int, target: Path) -> list[tuple[Path, int]]:
    """Write the files of a session below a folder, laid out as the agent does; returns each with its length.

    Other files in the session's own folder are included: saved outputs, notes on sub-agents.
    """
    written = []
    for file, agent, path in (*store.files.of_session(session), *store.files.beside_session(session)):
        place = target / _layout(agent, path)
        make_private_folder(place.parent)
        length = 0
        with open_private(place, "xb") as out:
            try:
                for data in store.files.chunks(file):
                    length += out.write(data)
            except DamagedError:
                place.unlink()
                raise
        written.append((place, length))
    return written


def _layout(agent: str, path: str) -> Path:
    """Where a file belongs in a home directory: its path starting at the agent's folder."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", "..")]
    info = agent_named(agent).info
    places = {place.split("/")[0] for place in info.paths}
    start = next((number for number, part in enumerate(parts) if part in places), len(parts) - 1)
    return Path(info.folder, *parts[start:])
