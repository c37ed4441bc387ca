"""Splits bytes into whole lines and remembers where each begins. No I/O, and no knowledge of what a line contains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from errno import EFBIG
from itertools import pairwise
from typing import NamedTuple

BLOCK_SIZE = 1 << 18
"""Bytes read at a time: large enough to be fast, small enough not to matter for memory."""

# The C library of Linux returns freed memory to the system, and gets it again for the next block, page by page. It
# retains up to twice the size of the largest piece that was freed so far, so a large one is allocated and freed once.
bytes(16 * BLOCK_SIZE)

LONGEST_LINE = 1 << 29
"""The maximum length of a line in bytes. A file without line ends would fill the memory."""
MOST_ZEROS = 1 << 24
"""The maximum number of NUL bytes at the beginning of a line: a crash leaves some, and a sparse file has only those."""


class Block(NamedTuple):
    """Consecutive whole lines."""

    data: bytes
    number: int
    """Number of the first line, counted from 1."""
    offset: int
    """Offset of the first byte."""
    starts: list[int]
    """Where each line begins in the data, and one past the newline that ends, or would end, the last one."""

    def lines(self) -> Iterator[bytes]:
        """The lines without their newlines, blank ones included."""
        for begin, end in pairwise(self.starts):
            yield self.data[begin : end - 1]


def find_starts(data: bytes) -> list[int]:
    """Return where lines begin, and one past the newline that ends, or would end, the last one.

    Only LF ends a line: str.splitlines() would also cut at U+2028, which is legal inside a JSON string.
    """
    starts = [0]
    find = data.find
    position = find(b"\n") + 1
    while position:
        starts.append(position)
        position = find(b"\n", position) + 1
    if starts[-1] != len(data):
        starts.append(len(data) + 1)
    return starts


def block_of(data: bytes) -> Block:
    """Return bytes as the first block of a file."""
    return Block(data, 1, 0, find_starts(data))


class LineCheck:
    """Checks the length of lines whose bytes arrive in pieces."""

    def __init__(self) -> None:
        self._length = 0
        self._has_text = False

    def add(self, piece: bytes) -> None:
        """Count the bytes after the last line end. Raises OSError if there are too many for a record."""
        start = piece.rfind(b"\n") + 1
        if start:
            self._length, self._has_text = 0, False
        added = len(piece) - start
        self._length += added
        if not self._has_text and added:
            self._has_text = piece[start] != 0 or piece.count(0, start) != added
        if self._length > (LONGEST_LINE if self._has_text else MOST_ZEROS):
            zeros = f"begins with more than {MOST_ZEROS >> 20} MB of NUL bytes"
            what = f"is longer than {LONGEST_LINE >> 20} MB" if self._has_text else zeros
            raise OSError(EFBIG, f"a line {what}; it and all that follows are skipped")


class LineSplitter:
    """Turns chunks of bytes into blocks of complete lines.

    Agents write one record per line, but the bytes arrive in whatever pieces the operating system returns, so a piece
    often ends within a line. The beginning of that line is held back until its newline arrives.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._check = LineCheck()
        self._number = 1
        self._offset = 0

    def feed(self, chunk: bytes) -> Block | None:
        """Add the next bytes and return the lines they complete, if any."""
        whole = self.cut(chunk)
        return self._advance(whole) if whole else None

    def flush(self) -> Block | None:
        """Return what is left at the end: a last line without a newline."""
        whole = self.rest()
        return self._advance(whole) if whole else None

    def cut(self, chunk: bytes) -> bytes:
        """Like `feed`, for callers that do not need to know where the lines begin."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._hold(chunk)
            return b""
        if self._rest:
            # A view, so that the lines are copied only once.
            whole = b"".join([*self._rest, memoryview(chunk)[:end]])
        else:
            whole = chunk if end == len(chunk) else chunk[:end]
        self._rest, self._check = [], LineCheck()
        self._hold(chunk[end:])
        return whole

    def _hold(self, piece: bytes) -> None:
        """Keep the beginning of a line until the rest arrives. Raises OSError if it is too long to be a record."""
        if piece:
            self._check.add(piece)
            self._rest.append(piece)

    def rest(self) -> bytes:
        """Return the bytes of the unfinished line."""
        whole = b"".join(self._rest)
        self._rest, self._check = [], LineCheck()
        return whole

    def _advance(self, data: bytes) -> Block:
        block = Block(data, self._number, self._offset, find_starts(data))
        self._number += len(block.starts) - 1
        self._offset += len(data)
        return block


def iter_blocks(read: Callable[[int], bytes], size: int = BLOCK_SIZE) -> Iterator[Block]:
    """Yield all blocks that `read` returns, with at most one block and one unfinished line in memory."""
    splitter = LineSplitter()
    while chunk := read(size):
        if block := splitter.feed(chunk):
            yield block
    if block := splitter.flush():
        yield block
