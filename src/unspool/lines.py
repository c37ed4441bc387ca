"""Bytes in, whole lines with their places out. No I/O, and no idea of what a line says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NamedTuple

BLOCK_SIZE = 1 << 20
"""How much is read at a time: large enough to be fast, small enough to be nothing."""


class Block(NamedTuple):
    """A run of whole lines."""

    data: bytes
    number: int
    """Of the first line, counted from 1."""
    offset: int
    """Of the first byte."""

    def lines(self) -> list[bytes]:
        """The lines without their newlines, blank ones included.

        Only LF ends a line: str.splitlines() would also cut at U+2028, which is legal inside a JSON string.
        """
        lines = self.data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        return lines

    def offsets(self, lines: list[bytes]) -> list[int]:
        """Where each of the lines begins in the file."""
        starts = accumulate(map(len, lines), initial=self.offset)
        return [start + newlines for newlines, start in zip(range(len(lines)), starts, strict=False)]


class LineSplitter:
    """Turn chunks of bytes into blocks of complete lines.

    Agents write one record a line, but the bytes reach us in whatever pieces the operating system hands over, so
    the last piece is often half a line. It stays here until its newline arrives.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._number = 1
        self._offset = 0

    def feed(self, chunk: bytes) -> Block | None:
        """Take the next bytes; give back the lines they complete, if any."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            if chunk:
                self._rest.append(chunk)
            return None
        whole = b"".join([*self._rest, chunk[:end]])
        self._rest = [chunk[end:]] if end < len(chunk) else []
        return self._advance(whole)

    def flush(self) -> Block | None:
        """What is left at the end: a last line without a newline."""
        whole = b"".join(self._rest)
        self._rest = []
        return self._advance(whole) if whole else None

    def _advance(self, data: bytes) -> Block:
        block = Block(data, self._number, self._offset)
        self._number += data.count(b"\n")
        self._offset += len(data)
        return block


def iter_blocks(read: Callable[[int], bytes], size: int = BLOCK_SIZE) -> Iterator[Block]:
    """All blocks of a source, with at most one block and one unfinished line in memory."""
    splitter = LineSplitter()
    while chunk := read(size):
        if block := splitter.feed(chunk):
            yield block
    if block := splitter.flush():
        yield block
