"""SQLite databases that were cut off, for example by a full disk or an incomplete copy."""

from __future__ import annotations

import os
import struct
from pathlib import Path

_MAGIC = b"SQLite format 3\0"
_HEADER = struct.Struct(">16sH6xI")
"""The magic string, the size of a page, and the number of changes."""
_COUNTS = struct.Struct(">28xI60xI")
"""The number of pages, and the number of changes when it was written."""
_LARGEST_PAGE = 65_536


def extend_truncated(path: Path) -> int:
    """Append zeros to a truncated database, up to the length in its header; returns the number of missing bytes.

    SQLite refuses to open it otherwise, although all other pages are intact. Nothing that the file contains is changed.
    """
    try:
        with open(path, "rb") as file:
            missing = _length_in(file.read(_COUNTS.size)) - os.fstat(file.fileno()).st_size
        if missing > 0:
            os.truncate(path, path.stat().st_size + missing)
    except FileNotFoundError:
        return 0
    return max(0, missing)


def _length_in(header: bytes) -> int:
    """Return the length of a database according to its header; 0 if the header does not have it."""
    if len(header) < _COUNTS.size:
        return 0
    magic, size, changes = _HEADER.unpack_from(header)
    pages, valid_for = _COUNTS.unpack_from(header)
    # Versions before 3.7.0 do not update the number of pages.
    return (_LARGEST_PAGE if size == 1 else size) * pages if magic == _MAGIC and changes == valid_for else 0
