"""The bytes of archived files, in compressed chunks.

A chunk may be packed against the beginning of another one, its base, which is needed again to unpack it. The base is
the chunk at the same offset in the version that replaced the file, the first chunk of the same file, or the first chunk
of a similar file. Archived bytes never change, however they are packed, so a base never changes either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from ..core.errors import DamagedError
from ..core.recent import Recent
from .compression import pack, pack_against, pack_tightly, unpack, unpack_against
from .damage import ADVICE
from .database import Database, Row

_WORTH_IT = 0.7
"""A difference is stored if it is smaller than the chunk by this factor."""
_LONGEST_CHAIN = 256
"""The largest number of versions to unpack to read one: all up to the next version that is stored as a whole."""
_SIMILAR = 0.9
"""A chunk is packed against another one if that makes it smaller by this factor."""
_MOST_DEPENDENTS = 8
"""The largest number of files packed against the same one: if it is damaged, none of them can be read."""
_CACHED = 4
"""The number of unpacked chunks that are cached at least; there are at most twice as many."""
_COLUMNS = "file, start, length, data, base, base_start, base_length"


class _Chunk(NamedTuple):
    file: int
    start: int
    length: int
    data: bytes
    base: int | None
    base_start: int | None
    base_length: int | None

    @property
    def key(self) -> tuple[int, int]:
        """The primary key."""
        return self.file, self.start


class Chunks:
    """The chunks of all files."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._recent: Recent[tuple[int, int], tuple[bytes, bytes]] = Recent(_CACHED)
        """Packed and unpacked data of chunks. The former shows whether another program has replaced a chunk."""

    def put(self, file: int, start: int, length: int, data: bytes) -> None:
        """Add a chunk, or replace the one at the same offset."""
        sql = """INSERT INTO chunk (file, start, length, data) VALUES (?, ?, ?, ?)
            ON CONFLICT (file, start) DO UPDATE SET length = excluded.length, data = excluded.data,
                base = NULL, base_start = NULL, base_length = NULL, tight = 0"""
        self._database.rows(sql, file, start, length, data)

    def read(self, file: int, start: int = 0) -> Iterator[bytes]:
        """The bytes of a file, beginning with the chunk that contains `start`."""
        for chunk in self._each(file, start):
            yield self._unpacked(chunk)

    def one(self, file: int, start: int) -> bytes:
        """The bytes of the chunk at an offset."""
        chunk = self._one(file, start)
        if chunk is None:
            raise DamagedError("missing")
        return self._unpacked(chunk)

    def has_base(self, file: int, start: int) -> bool:
        """Whether the chunk at an offset is packed against another one."""
        sql = "SELECT 1 FROM chunk WHERE file = ? AND start = ? AND base IS NOT NULL"
        return bool(self._database.rows(sql, file, start))

    def span(self, file: int, start: int, length: int) -> bytes:
        """Some bytes of a file. Raises DamagedError if not all of them are stored."""
        first, end = self.start_of(file, start), start + length
        sql = f"SELECT {_COLUMNS} FROM chunk WHERE file = ? AND start >= ? AND start < ? ORDER BY start"
        chunks = [_chunk(row) for row in self._database.rows(sql, file, first, end)]
        pieces = [self._unpacked(chunk)[max(0, start - chunk.start) :] for chunk in chunks]
        found = (pieces[0] if len(pieces) == 1 else b"".join(pieces))[:length]
        if len(found) < length:
            raise DamagedError(f"{self._describe_bytes(file, start, length)} are missing in the store; {ADVICE}")
        return found

    def _describe_bytes(self, file: int, start: int, length: int) -> str:
        ((path,),) = self._database.rows("SELECT path FROM file WHERE id = ?", file)
        return f"{path}: bytes {start} to {start + length - 1}"

    def intact(self, file: int, start: int = 0) -> Iterator[tuple[int, bytes | None]]:
        """The lengths and bytes of the chunks that `read` returns; None instead of the bytes if a chunk is damaged."""
        for chunk in self._each(file, start):
            data = None
            with suppress(DamagedError):
                data = self._unpacked(chunk)
            yield chunk.length, data

    def packed(self, file: int, start: int = 0) -> Iterator[tuple[int, int, bytes]]:
        """The chunks that `read` returns, each compressed on its own: start, length, data. Damaged ones stay so."""
        for chunk in self._each(file, start):
            yield chunk.start, chunk.length, self._packed_alone(chunk)

    def _packed_alone(self, chunk: _Chunk) -> bytes:
        with suppress(DamagedError):
            return chunk.data if chunk.base is None else pack(self._unpacked(chunk))
        return chunk.data

    def start_of(self, file: int, offset: int) -> int:
        """The start of the chunk that contains the byte at `offset`."""
        sql = "SELECT coalesce(max(start), 0) FROM chunk WHERE file = ? AND start <= ?"
        return int(self._database.rows(sql, file, offset)[0][0])

    def remove(self, file: int) -> None:
        """Delete the chunks of a file."""
        self._database.rows("DELETE FROM chunk WHERE file = ?", file)

    # --- packing against others ---

    def loose(self, quiet_since: int | None) -> list[tuple[int, int]]:
        """The file and start of chunks that could be packed tighter, in files that did not change recently."""
        condition, values = quiet_file(self._database, quiet_since)
        sql = f"""SELECT chunk.file, chunk.start FROM chunk JOIN file ON file.id = chunk.file
            WHERE chunk.tight = 0 AND chunk.base IS NULL AND {condition} ORDER BY chunk.file, chunk.start"""
        return [(int(file), int(start)) for file, start in self._database.rows(sql, *values)]

    def tighten(self, file: int, start: int) -> None:
        """Pack a chunk as small as possible: the first one of a file against that of another, the rest against it."""
        chunk = self._one(file, start)
        if chunk is None or chunk.base is not None:
            return
        content = self._unpacked(chunk)
        alone = min(chunk.data, pack_tightly(content), key=len)
        base = file if start else self._similar_file(file)
        first = self._one(base, 0) if base is not None else None
        known = self._unpacked(first) if first is not None else b""
        data = pack_tightly(content, known) if known else alone
        columns: tuple[int | None, ...] = (base, 0, len(known))
        if len(data) > len(alone) * _SIMILAR:
            data, columns = alone, (None, None, None)
        sql = """UPDATE chunk SET data = ?, base = ?, base_start = ?, base_length = ?, tight = 1
            WHERE file = ? AND start = ? AND data = ?"""
        # Nothing happens if the chunk was replaced in the meantime.
        self._database.rows(sql, data, *columns, file, start, chunk.data)

    def _similar_file(self, file: int) -> int | None:
        """The file to pack the first chunk of a file against: the newest packed one of the same agent, or its base."""
        sql = """SELECT chunk.file, chunk.base FROM chunk JOIN file ON file.id = chunk.file
            JOIN file AS own ON own.machine = file.machine AND own.agent = file.agent AND own.id <> file.id
            WHERE own.id = ? AND chunk.start = 0 AND chunk.tight = 1 AND file.replaced_at IS NULL
            ORDER BY chunk.file DESC LIMIT 1"""
        for last, base in self._database.rows(sql, file):
            found = self._one(last if base is None else base, 0)
            if found is not None and found.base is None and len(self._dependents(found.file)) < _MOST_DEPENDENTS:
                return found.file
        return None

    def _dependents(self, file: int) -> list[int]:
        """The other files with chunks that are packed against a file."""
        sql = "SELECT DISTINCT file FROM chunk WHERE base = ? AND file <> ?"
        return [int(other) for (other,) in self._database.rows(sql, file, file)]

    def shrink(self, file: int, newer: int) -> None:
        """Store the chunks of a file as differences to those of a newer version. Call it in a transaction."""
        if self._chain_length(file) >= _LONGEST_CHAIN:
            return
        for chunk in self._each(file, 0):
            base = self._one(newer, chunk.start)
            if base is None or chunk.base == newer:
                continue
            try:
                if any(link.file == file for link in self._chain(base)):
                    continue
                known = self._unpacked(base)
                data = pack_against(self._unpacked(chunk), known)
            except DamagedError:
                continue
            if len(data) < len(chunk.data) * _WORTH_IT:
                # Insert a new row: if an existing one shrinks, SQLite keeps its nearly empty page.
                sql = "DELETE FROM chunk WHERE file = ? AND start = ? RETURNING tight"
                ((tight,),) = self._database.rows(sql, file, chunk.start)
                row = (file, chunk.start, chunk.length, data, newer, chunk.start, len(known), tight)
                self._database.insert("chunk", f"{_COLUMNS}, tight", [row])

    def detach(self, file: int) -> None:
        """Repack the chunks of other files that depend on a file without a base, before it is deleted."""
        sql = "SELECT file, start FROM chunk WHERE base = ? AND file <> ?"
        for other, start in self._database.rows(sql, file, file):
            chunk = self._one(other, start)
            assert chunk is not None
            self.put(other, start, chunk.length, self._packed_alone(chunk))

    def _chain_length(self, file: int) -> int:
        """The number of versions that depend on a file, directly or through other versions."""
        # Two files may depend on each other, each through another chunk.
        seen = {file}
        while earlier := [other for other in self._dependents(file) if other not in seen]:
            file = earlier[0]
            seen.add(file)
        return len(seen) - 1

    # --- unpacking ---

    def _each(self, file: int, start: int) -> Iterator[_Chunk]:
        sql = "SELECT start FROM chunk WHERE file = ? AND start + length > ? ORDER BY start"
        for (begin,) in self._database.rows(sql, file, start):
            chunk = self._one(file, begin)
            assert chunk is not None
            yield chunk

    def _one(self, file: int, start: int) -> _Chunk | None:
        found = self._database.rows(f"SELECT {_COLUMNS} FROM chunk WHERE file = ? AND start = ?", file, start)
        return _chunk(found[0]) if found else None

    def _chain(self, chunk: _Chunk) -> list[_Chunk]:
        """A chunk, its base, the base of the base, and so on."""
        chain = [chunk]
        while chain[-1].base is not None:
            base = self._one(chain[-1].base, chain[-1].base_start or 0)
            if base is None:
                location = self._describe_bytes(chain[-1].base, chain[-1].base_start or 0, chain[-1].base_length or 0)
                raise DamagedError(f"{location} are missing in the store; {ADVICE}")
            chain.append(base)
        return chain

    def _unpacked(self, chunk: _Chunk) -> bytes:
        """The bytes of a chunk."""
        if (known := self._cached(chunk)) is not None:
            return known
        data = b""
        for link in reversed(self._chain(chunk)):
            try:
                data = self._content(link, data[: link.base_length])
            except DamagedError as error:
                location = self._describe_bytes(link.file, link.start, link.length)
                raise DamagedError(f"{location} are damaged in the store: {error}; {ADVICE}") from error
        return data

    def _content(self, chunk: _Chunk, base: bytes) -> bytes:
        if (known := self._cached(chunk)) is not None:
            return known
        data = unpack(chunk.data) if chunk.base is None else unpack_against(chunk.data, base)
        self._recent.put(chunk.key, (chunk.data, data))
        return data

    def _cached(self, chunk: _Chunk) -> bytes | None:
        packed, data = self._recent.get(chunk.key) or (b"", b"")
        return data if packed == chunk.data else None


def _chunk(row: Row) -> _Chunk:
    file, start, length, data, *base = row
    return _Chunk(file, start, length, bytes(data), *base)


def quiet_file(database: Database, since: int | None) -> tuple[str, list[object]]:
    """The condition for files that are maintained here and have not changed since a time, in nanoseconds."""
    condition, values = "TRUE", list[object]()
    if database.is_shared:
        condition, values = "file.machine = ?", [database.machine]
    if since is not None:
        condition, values = f"{condition} AND ({_QUIET})", [*values, since]
    return condition, values


_QUIET = "file.changed < ? OR file.gone_at IS NOT NULL OR file.replaced_at IS NOT NULL"
