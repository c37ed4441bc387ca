"""Compression for any thread. A compressor is not thread-safe, so that each thread has its own."""

from __future__ import annotations

import threading

import zstandard

LEVEL = 1
"""The default level 3 takes 1.6 times as long and makes the store 9 % smaller."""


class _Own(threading.local):
    def __init__(self) -> None:
        self.pack = zstandard.ZstdCompressor(level=LEVEL).compress
        self.unpack = zstandard.ZstdDecompressor().decompress


_own = _Own()


def pack(data: bytes) -> bytes:
    """Compress bytes."""
    return _own.pack(data)


def unpack(data: bytes) -> bytes:
    """Decompress bytes."""
    return _own.unpack(data)
