"""The bytes of archived files, in compressed chunks.

The newest version of a file is stored as it is. A chunk of an older one may be stored as the difference to the chunk
at the same offset of the version that replaced it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from ..core.errors import DamagedError
from .compression import pack, pack_against, unpack, unpack_against
from .damage import ADVICE
from .database import Database

_WORTH_IT = 0.7
"""A difference has to be smaller than the chunk by this factor."""
_LONGEST_CHAIN = 256
"""Reading a version unpacks every one between it and the next that is stored as a whole."""


class _Chunk(NamedTuple):
    length: int
    data: bytes
    base: int | None
    base_length: int | None


class Chunks:
    """The chunks of all files."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, file: int, start: int, length: int, data: bytes) -> None:
        """Add a chunk, or replace the one at the same offset."""
        sql = """INSERT INTO chunk (file, start, length, data) VALUES (?, ?, ?, ?)
            ON CONFLICT (file, start) DO UPDATE SET length = excluded.length, data = excluded.data"""
        self._database.rows(sql, file, start, length, data)

    def read(self, file: int, start: int = 0) -> Iterator[bytes]:
        """The bytes of a file, beginning with the chunk that contains `start`."""
        for begin, chunk in self._each(file, start):
            try:
                yield self._unpacked(begin, chunk)
            except DamagedError as error:
                ((path,),) = self._database.rows("SELECT path FROM file WHERE id = ?", file)
                where = f"{path}: bytes {begin} to {begin + chunk.length - 1}"
                raise DamagedError(f"{where} are damaged in the store: {error}; {ADVICE}") from error

    def intact(self, file: int, start: int = 0) -> Iterator[tuple[int, bytes | None]]:
        """The same chunks with their lengths; None for one that is damaged."""
        for begin, chunk in self._each(file, start):
            data = None
            with suppress(DamagedError):
                data = self._unpacked(begin, chunk)
            yield chunk.length, data

    def packed(self, file: int, start: int = 0) -> Iterator[tuple[int, int, bytes]]:
        """The same chunks, each compressed on its own: start, length, data."""
        for begin, chunk in self._each(file, start):
            whole = chunk.data if chunk.base is None else pack(self._unpacked(begin, chunk))
            yield begin, chunk.length, whole

    def start_of(self, file: int, offset: int) -> int:
        """Where the chunk with a byte begins."""
        sql = "SELECT coalesce(max(start), 0) FROM chunk WHERE file = ? AND start <= ?"
        return int(self._database.rows(sql, file, offset)[0][0])

    def remove(self, file: int) -> None:
        """Delete the chunks of a file."""
        self._database.rows("DELETE FROM chunk WHERE file = ?", file)

    def shrink(self, file: int, newer: int) -> None:
        """Store the chunks of a file as differences to those of a newer version."""
        if self._chain_length(file) >= _LONGEST_CHAIN:
            return
        for start, chunk in self._each(file, 0):
            base = self._one(newer, start)
            if base is None or chunk.base is not None:
                continue
            try:
                known = self._unpacked(start, base)
                data = pack_against(self._unpacked(start, chunk), known)
            except DamagedError:
                continue
            if len(data) < len(chunk.data) * _WORTH_IT:
                sql = "UPDATE chunk SET data = ?, base = ?, base_length = ? WHERE file = ? AND start = ?"
                self._database.rows(sql, data, newer, len(known), file, start)

    def detach(self, file: int) -> None:
        """Store chunks that depend on a file as they are, before it is deleted."""
        for other, start in self._database.rows("SELECT file, start FROM chunk WHERE base = ?", file):
            chunk = self._one(other, start)
            assert chunk is not None
            data = chunk.data
            with suppress(DamagedError):
                data = pack(self._unpacked(start, chunk))
            sql = "UPDATE chunk SET data = ?, base = NULL, base_length = NULL WHERE file = ? AND start = ?"
            self._database.rows(sql, data, other, start)

    def _chain_length(self, file: int) -> int:
        """How many versions depend on a file, one through the other."""
        length = 0
        while earlier := self._database.rows("SELECT file FROM chunk WHERE base = ? LIMIT 1", file):
            length += 1
            file = earlier[0][0]
        return length

    def _each(self, file: int, start: int) -> Iterator[tuple[int, _Chunk]]:
        sql = "SELECT start FROM chunk WHERE file = ? AND start + length > ? ORDER BY start"
        for (begin,) in self._database.rows(sql, file, start):
            chunk = self._one(file, begin)
            assert chunk is not None
            yield begin, chunk

    def _one(self, file: int, start: int) -> _Chunk | None:
        sql = "SELECT length, data, base, base_length FROM chunk WHERE file = ? AND start = ?"
        found = self._database.rows(sql, file, start)
        return _Chunk(found[0][0], bytes(found[0][1]), *found[0][2:]) if found else None

    def _unpacked(self, start: int, chunk: _Chunk) -> bytes:
        """The bytes of a chunk. The versions between it and a whole chunk are unpacked one after the other."""
        chain = [chunk]
        while chain[-1].base is not None:
            base = self._one(chain[-1].base, start)
            assert base is not None
            chain.append(base)
        data = unpack(chain.pop().data)
        for newer in reversed(chain):
            data = unpack_against(newer.data, data[: newer.base_length])
        return data
