"""Compression for any thread, with checksums. A compressor is not thread-safe, so that each thread has its own.

Packed data is sealed: a byte that marks it, a checksum of what follows, and a frame of zstd, which ends with a checksum
of the content. The first checksum shows every damage without unpacking. The second one shows whether other bytes, from
a file or another store, are those that were packed. Stores of earlier versions have frames without either.
"""

from __future__ import annotations

import threading
from zlib import crc32

import zstandard

from ..core.errors import DamagedError

LEVEL = 1
"""The default level 3 takes 1.6 times as long and makes the store 9 % smaller."""
_SEALED = b"\xb7"
_UNSEALED = b"\x28"
"""The first byte of every frame."""
_SUM = 4
"""The length of a checksum."""
_START = len(_SEALED) + _SUM


class _Own(threading.local):
    def __init__(self) -> None:
        self.pack = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress
        self.unpack = zstandard.ZstdDecompressor().decompress


_own = _Own()


def pack(data: bytes) -> bytes:
    """Compress bytes."""
    return seal(_own.pack(data))


def unpack(data: bytes) -> bytes:
    """Decompress bytes. Raises DamagedError if they are not those that were packed."""
    frame = opened(data)
    try:
        return _own.unpack(frame)
    except (zstandard.ZstdError, MemoryError) as error:
        # A damaged frame of an earlier version may claim any length.
        raise DamagedError(f"the data cannot be unpacked: {error}") from error


def seal(frame: bytes) -> bytes:
    """Put the checksum of a frame before it."""
    return _SEALED + crc32(frame).to_bytes(_SUM, "big") + frame


def is_sealed(data: bytes) -> bool:
    """Whether data has a checksum. Data of earlier versions has none."""
    return data[:1] == _SEALED


def opened(data: bytes) -> memoryview:
    """The frame in packed data. Raises DamagedError if it was changed; an unsealed one cannot be checked."""
    view = memoryview(data)
    if is_sealed(data):
        if crc32(view[_START:]) != int.from_bytes(view[len(_SEALED) : _START], "big"):
            raise DamagedError("the checksum is wrong")
        return view[_START:]
    if data[:1] != _UNSEALED:
        raise DamagedError("the data does not begin as it should")
    return view


def unpack_damaged(data: bytes) -> bytes | None:
    """The content of damaged data, if only what is before the content was hit, and its checksum proves that."""
    try:
        content = _own.unpack(data[_START:])
    except (zstandard.ZstdError, MemoryError):
        return None
    return content if is_content_of(pack(content), data) else None


def is_content_of(packed: bytes, damaged: bytes) -> bool:
    """Whether packed data has the content that damaged data had, according to the checksum of the content in both."""
    return packed[-_SUM:] == damaged[-_SUM:]
