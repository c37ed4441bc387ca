"""Compressing, from any thread: a compressor may be used by one at a time, so that each thread has its own."""

from __future__ import annotations

import threading

import zstandard


class _Own(threading.local):
    def __init__(self) -> None:
        self.pack = zstandard.ZstdCompressor(level=3).compress
        self.pack_quickly = zstandard.ZstdCompressor(level=1).compress
        self.unpack = zstandard.ZstdDecompressor().decompress


_own = _Own()


def pack(data: bytes) -> bytes:
    """Make bytes small that stay."""
    return _own.pack(data)


def pack_quickly(data: bytes) -> bytes:
    """Make bytes small that can be made again."""
    return _own.pack_quickly(data)


def unpack(data: bytes) -> bytes:
    """Give back what was packed."""
    return _own.unpack(data)
