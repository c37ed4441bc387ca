"""Reads logs: plain or compressed, growing, vanishing or unreadable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from errno import EFBIG
from functools import wraps
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import zstandard

from ..core import model as m
from .decode import Batch, Damage, Location, RecordDecoder
from .faults import collect_faults, report_fault
from .lines import BLOCK_SIZE, Block, LineCheck, LineSplitter, block_of, iter_blocks
from .listing import open_file
from .sources import COMPRESSED, LineFile, LogSource, read_fully

T = TypeVar("T")

_MAX_CACHED = 1 << 15
"""The maximum number of files in each cache of `while_unchanged`."""
_LARGEST = 1 << 30
"""The maximum size of a file that is read as a whole, in bytes."""
_LONGEST_START = 1 << 26
"""The first line of a log has to end within this many bytes."""
_MOST_UNPACKED = 1 << 26
"""Decompressed bytes that any compressed log may have."""
_MOST_RATIO = 250
"""The maximum compression ratio of a larger one: the logs of agents compress to about a tenth."""


class FollowedFile:
    """Makes a reader pause at the end of a growing file instead of finishing there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.caught_up = False
        """Everything that was in the file has been read."""

    @contextmanager
    def active(self) -> Iterator[None]:
        """While this is active, reading the file pauses at its end."""
        token = _followed.set(self)
        try:
            yield
        finally:
            _followed.reset(token)

    def batches(self, read: Callable[[int], bytes], decoder: RecordDecoder[T], log: m.LogFile) -> Iterator[Batch[T]]:
        """Yield the content of the file, an empty batch each time its end is reached, and then what was added since."""
        splitter = LineSplitter()
        while True:
            while chunk := read(BLOCK_SIZE):
                if block := splitter.feed(chunk):
                    batch = decoder.batch(block)
                    log.size = block.offset + len(block.data)
                    log.lines += batch.lines
                    yield batch
            self.caught_up = True
            yield Batch([], None, block_of(b""), [], 0)


_followed: ContextVar[FollowedFile | None] = ContextVar("followed", default=None)


def log_of(path: Path, role: m.FileRole = "log") -> m.LogFile:
    """Return the entry in the record for a log that is about to be read."""
    return m.LogFile(path=name_of(path), size=0, role=role)


def name_of(path: str | Path) -> str:
    """Return a path as valid text: file names may contain bytes that are not."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is inside a folder."""
    return path.startswith(folder) and path[len(folder) : len(folder) + 1] in ("/", "\\")


def stem_of(path: Path) -> str:
    """The name of a file without its suffix, as valid text: the name of a session that has no other."""
    return name_of(path.stem)


def read_batches(
    source: Path | LogSource, decoder: RecordDecoder[T], log: m.LogFile, limit: int | None = None
) -> Iterator[Batch[T]]:
    """Decode a log block by block, up to where it ended when it was opened. A path means a file of lines.

    What cannot be read is reported as damage in the last batch, never as an exception. `log` is updated on the way.
    """
    if isinstance(source, Path):
        source = LineFile(source)
    try:
        with source.open() as file:
            followed = _followed.get()
            if followed is not None and followed.path == source.path:
                yield from followed.batches(file.read, decoder, log)
                return
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            read = _unpacked(file.read) if source.path.suffix == COMPRESSED else _bounded(file.read, size)
            if limit is not None:
                read = _bounded(read, limit)
            for block in iter_blocks(read):
                batch = decoder.batch(block)
                log.size = block.offset + len(block.data)
                log.lines += batch.lines
                yield batch
    except (OSError, zstandard.ZstdError) as error:
        if isinstance(error, OSError):
            report_fault(error, source.path)
        yield _broken(log, error)


def read_blocks(path: Path, size: int = BLOCK_SIZE) -> Iterator[bytes]:
    """The raw lines of a log, one block at a time; ends where the file cannot be read."""
    splitter = LineSplitter()
    try:
        with open_file(path) as file:
            while chunk := file.read(size):
                if lines := splitter.cut(chunk):
                    yield lines
    except OSError as error:
        report_fault(error, path)
        return
    if last := splitter.rest():
        yield last


def read_start(path: Path, size: int) -> Block | None:
    """The whole lines within the first bytes of a log; None when there are none or it cannot be read."""
    try:
        with open_file(path) as file:
            read = _unpacked(file.read) if path.suffix == COMPRESSED else file.read
            pieces = [read(size)]
            total = len(pieces[0])
            while pieces[-1] and b"\n" not in pieces[-1] and total < _LONGEST_START:
                # More and more at once: a line may be very long.
                pieces.append(read(max(size, total)))
                total += len(pieces[-1])
            data = b"".join(pieces)
            if not pieces[-1]:
                return block_of(data) if data else None
    except zstandard.ZstdError:
        return None
    except OSError as error:
        report_fault(error, path)
        return None
    end = data.rfind(b"\n") + 1
    return block_of(data[:end] or data) if data else None


def iter_records(path: Path, decoder: RecordDecoder[T], size: int) -> Iterator[T]:
    """The records of a log for a caller that stops at the one it looks for; `size` bytes are read at a time."""
    for piece in iter_pieces(path, decoder, size):
        yield from piece


def iter_pieces(path: Path, decoder: RecordDecoder[T], size: int) -> Iterator[list[T]]:
    """Like `iter_records`, but all records of a piece at once."""
    try:
        with open_file(path) as file:
            read = _unpacked(file.read) if path.suffix == COMPRESSED else file.read
            for block in iter_blocks(read, size):
                yield decoder.batch(block).records
    except zstandard.ZstdError:
        return
    except OSError as error:
        report_fault(error, path)


def read_end(path: Path, size: int) -> Block | None:
    """The whole lines within the last bytes of a log; their numbers and offsets are meaningless."""
    try:
        with open_file(path) as file:
            length = os.fstat(file.fileno()).st_size
            file.seek(max(0, length - size))
            data = file.read(size)
    except OSError as error:
        report_fault(error, path)
        return None
    start = data.find(b"\n") + 1 if length > size else 0
    return block_of(data[start:]) if data[start:] else None


def read_everything(path: Path) -> bytes:
    """A whole log, decompressed as far as possible. Raises OSError."""
    pieces = []
    check = LineCheck()
    with open_file(path) as file:
        read = _unpacked(file.read) if path.suffix == COMPRESSED else file.read
        with suppress(zstandard.ZstdError):
            while data := read(BLOCK_SIZE):
                check.add(data)
                pieces.append(data)
    return b"".join(pieces)


def read_whole(path: Path) -> bytes | None:
    """Read a whole file; None if it cannot be read, or is larger than any file that an agent writes."""
    try:
        with open_file(path) as file:
            if os.fstat(file.fileno()).st_size > _LARGEST:
                raise OSError(EFBIG, f"larger than {_LARGEST >> 30} GB")
            return file.read()
    except OSError as error:
        report_fault(error, path)
        return None


def read_first(path: Path, size: int) -> tuple[bytes, int] | None:
    """The first bytes of a file, and its size; None when it cannot be read."""
    try:
        with open_file(path) as file:
            return file.read(size), os.fstat(file.fileno()).st_size
    except OSError as error:
        report_fault(error, path)
        return None


def while_unchanged(read: Callable[[Path], T]) -> Callable[[Path], T]:
    """Cache what a function reads from a file until the file changes; programs that follow many files call it often."""
    known: dict[Path, tuple[int, T]] = {}
    _caches.append(known)

    @wraps(read)
    def remembering(path: Path) -> T:
        try:
            facts = path.stat()
        except OSError as error:
            report_fault(error, path)
            return read(path)
        # The numbers themselves would need more memory than most of what is cached.
        stamp = hash((facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns))
        found = known.get(path)
        if found is not None and found[0] == stamp:
            return found[1]
        if len(known) >= _MAX_CACHED:
            known.clear()
        with collect_faults() as faults:
            value = read(path)
        faults.pass_on()
        if not faults.errors:
            known[path] = stamp, value
        return value

    return remembering


_caches: list[dict[Path, Any]] = []


def forget_unchanged() -> None:
    """Empty the caches of `while_unchanged`: files that were read once and are not followed need not stay in memory."""
    for known in _caches:
        known.clear()


def is_closed(path: Path) -> bool:
    """Whether there is a file that cannot be opened."""
    try:
        with open_file(path):
            return False
    except FileNotFoundError:
        return False
    except OSError as error:
        report_fault(error, path)
        return True


def size_of(path: Path) -> int:
    """Return the size of a file; 0 if it is gone."""
    try:
        return path.stat().st_size
    except OSError as error:
        report_fault(error, path)
        return 0


def is_beginning(path: Path, of: Path) -> bool:
    """Whether another file has all bytes of a file at its beginning; False if that cannot be found out."""
    try:
        with open_file(path) as file, open_file(of) as longer:
            while data := file.read(BLOCK_SIZE):
                if read_fully(longer, len(data)) != data:
                    return False
    except OSError as error:
        report_fault(error)
        return False
    return True


def _bounded(read: Callable[[int], bytes], limit: int) -> Callable[[int], bytes]:
    """Stop after `limit` bytes: what is appended in the meantime is read next time."""
    left = limit

    def read_some(size: int) -> bytes:
        nonlocal left
        data = read(min(size, left)) if left > 0 else b""
        left -= len(data)
        return data

    return read_some


def _unpacked(read: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Decompress in small pieces, and raise an error if the result is suspiciously large for the size of the file."""
    packed, unpacked = _Counted(read), 0
    reader = zstandard.ZstdDecompressor().stream_reader(cast("IO[bytes]", packed), read_across_frames=True)

    def read_some(size: int) -> bytes:
        nonlocal unpacked
        data = reader.read(min(size, BLOCK_SIZE))
        unpacked += len(data)
        if unpacked > max(_MOST_UNPACKED, _MOST_RATIO * packed.count):
            raise zstandard.ZstdError(
                f"{packed.count:,} bytes decompress to over {unpacked - len(data):,}; the rest is skipped"
            )
        return data

    return read_some


class _Counted:
    """Counts the bytes that are read."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data = self._read(size)
        self.count += len(data)
        return data


def _broken(log: m.LogFile, error: Exception) -> Batch[T]:
    reason = "unreadable" if isinstance(error, OSError) else "broken-compression"
    detail = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    return Batch([], None, block_of(b""), [Damage(reason, detail, Location(0, log.size, 0), lost=False)], 0)
