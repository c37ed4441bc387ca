"""Splits chunks of bytes into lines, with a limit on their length."""

from __future__ import annotations

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is skipped and counted."""


class LineBuffer:
    """Collects chunks and returns complete lines; a line that is too long is skipped."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self.max_bytes = max_bytes
        self.skipped = 0
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_too_long = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the non-empty lines that these bytes complete."""
        *whole, rest = data.split(b"\n")
        found = []
        for piece in whole:
            self._keep(piece)
            if self._is_too_long:
                self.skipped += 1
            elif self._size:
                found.append(b"".join(self._pieces))
            self._pieces, self._size, self._is_too_long = [], 0, False
        self._keep(rest)
        return found

    def take_skipped(self) -> int:
        """Return the number of lines skipped since the last call."""
        count, self.skipped = self.skipped, 0
        return count

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self.max_bytes:
            self._is_too_long = True
            self._pieces = []
        elif piece and not self._is_too_long:
            self._pieces.append(piece)
