"""Compression with checksums, for use in any thread. A compressor is not thread-safe, so each thread has its own.

Packed data is sealed: it consists of a marker byte, a checksum of the rest, and a zstd frame, which ends with a
checksum of the content. The first checksum detects any damage without unpacking. The second one shows whether other
bytes, from a file or another store, are the ones that were packed. Stores of earlier versions have frames without
either checksum.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from zlib import crc32

import zstandard

from ..core.errors import DamagedError

LEVEL = 1
"""The default level 3 takes 1.6 times as long and makes the store 9 % smaller."""
_SEALED = b"\xb7"
_UNSEALED = b"\x28"
"""The first byte of every zstd frame."""
_SUM = 4
"""The length of a checksum in bytes."""
_START = len(_SEALED) + _SUM


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.pack = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress
        self.unpack = zstandard.ZstdDecompressor().decompress


_per_thread = _PerThread()


def pack(data: bytes) -> bytes:
    """Compress bytes."""
    return seal(_per_thread.pack(data))


def unpack(data: bytes) -> bytes:
    """Decompress bytes. Raises DamagedError if they are not what was packed."""
    return _unpacked(_per_thread.unpack, data)


def _unpacked(unpack: Callable[[memoryview], bytes], data: bytes) -> bytes:
    frame = checked_frame(data)
    try:
        return unpack(frame)
    except (zstandard.ZstdError, MemoryError) as error:
        # A damaged frame of an earlier version may claim any length.
        raise DamagedError(f"the data cannot be unpacked: {error}") from error


def seal(frame: bytes) -> bytes:
    """Prefix a frame with its checksum."""
    return _SEALED + crc32(frame).to_bytes(_SUM, "big") + frame


def is_sealed(data: bytes) -> bool:
    """Whether data has a checksum. Data of earlier versions has none."""
    return data[:1] == _SEALED


def checked_frame(data: bytes) -> memoryview:
    """The frame in packed data. Raises DamagedError if it was changed; an unsealed frame cannot be checked."""
    view = memoryview(data)
    if is_sealed(data):
        if crc32(view[_START:]) != int.from_bytes(view[len(_SEALED) : _START], "big"):
            raise DamagedError("the checksum is wrong")
        return view[_START:]
    if data[:1] != _UNSEALED:
        raise DamagedError("the data has an invalid header")
    return view


def unpack_damaged(data: bytes) -> bytes | None:
    """The content of damaged data, if its checksum proves that only the bytes before it are damaged; else None."""
    try:
        content = _per_thread.unpack(data[_START:])
    except (zstandard.ZstdError, MemoryError):
        return None
    return content if is_content_of(pack(content), data) else None


def is_content_of(packed: bytes, damaged: bytes) -> bool:
    """Whether packed data has the content that damaged data had, according to the checksum of the content in both."""
    return packed[-_SUM:] == damaged[-_SUM:]


_AGAINST = zstandard.ZstdCompressionParameters.from_level(3, window_log=22, hash_log=20, write_checksum=True)
"""For differences: the window covers both chunks, and level 1 would miss most of what they share."""
_TIGHT_LEVEL = 12
"""Level 17 takes five times as long and makes archived files 3 % smaller."""
_SMALLEST_WINDOW, _LARGEST_WINDOW = 18, 24
"""The binary logarithms of their sizes."""


def pack_against(data: bytes, base: bytes) -> bytes:
    """Compress bytes that are similar to a base, which is needed again to decompress them."""
    return _packed_against(data, base, _AGAINST)


def _packed_against(data: bytes, base: bytes, parameters: zstandard.ZstdCompressionParameters) -> bytes:
    known = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return seal(zstandard.ZstdCompressor(dict_data=known, compression_params=parameters).compress(data))


def pack_tightly(data: bytes, base: bytes = b"") -> bytes:
    """Compress bytes as well as possible in reasonable time. Without a base, `unpack` decompresses them."""
    window = min(max((len(data) + len(base)).bit_length(), _SMALLEST_WINDOW), _LARGEST_WINDOW)
    parameters = zstandard.ZstdCompressionParameters.from_level(_TIGHT_LEVEL, window_log=window, write_checksum=True)
    packed = _packed_against(data, base, parameters)
    # The data that this replaces is deleted, so an error of the compressor must not go unnoticed.
    if unpack_against(packed, base) != data:
        raise DamagedError("the data was not the same after packing and unpacking")
    return packed


def unpack_against(data: bytes, base: bytes) -> bytes:
    """Decompress what was packed against a base. Raises DamagedError like `unpack`."""
    known = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return _unpacked(zstandard.ZstdDecompressor(dict_data=known).decompress, data)
