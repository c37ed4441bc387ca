"""A local folder that mirrors a folder in another file system and fetches bytes on demand.

A reader looks at the first lines of many files and reads only a few of them completely. Every file has its name, size
and time from the start, but its bytes are fetched when they are read.
"""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from errno import EACCES, EIO
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..io.listing import mounted
from .file_systems import RemoteFile, RemoteFileSystem

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BLOCK = 1 << 16
"""The minimum number of bytes to fetch: as many as readers need to list a log."""
_AHEAD = 1 << 23
"""The number of bytes to fetch ahead while a file is read sequentially."""
_MOST_OPEN = 16
_CONNECTIONS = 32
_DENIED = ("ACCESS_DENIED", "AccessDenied", "Forbidden", "HTTP status 403")
"""Texts in the errors of object stores that a retry would not change."""


class Mirror:
    """The files of one remote file system, mirrored below a local folder."""

    def __init__(self, folder: Path, files: RemoteFileSystem) -> None:
        self.folder = folder
        self._files = files
        self._known: dict[str, _MirroredFile] = {}
        self._open: OrderedDict[str, Any] = OrderedDict()
        self.failure: str | None = None
        """The first error that may be temporary. Whatever was read after it may be incomplete."""

    @property
    def start(self) -> str:
        """The part of a URL before the path."""
        return self._files.start

    def local(self, path: str) -> Path:
        """Return the local path of a file or folder."""
        return self.folder / path

    def walk(self, path: str) -> Iterator[RemoteFile]:
        """Yield all files below a folder of the remote file system. Raises OSError."""
        return self._files.walk(path)

    def add(self, file: RemoteFile) -> bool:
        """Add a file to the mirror. Returns False if an object has a name that is not possible in a local folder."""
        parts = file.path.split("/")
        local = self.local(file.path)
        if str(local) in self._known:
            return True
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            return False
        try:
            local.parent.mkdir(parents=True, exist_ok=True)
            with local.open("xb") as opened:
                opened.truncate(file.size)
            os.utime(local, ns=(file.changed, file.changed))
        except (OSError, OverflowError):
            return False
        self._known[str(local)] = _MirroredFile(file.path, local, file.size)
        return True

    def fetch_starts(self) -> None:
        """Fetch the beginnings of all files in parallel, to save a round trip for each of them."""
        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            deque(pool.map(self._fetch_start, self._known.values()), maxlen=0)

    def _fetch_start(self, file: _MirroredFile) -> None:
        if file.size:
            # If this fails or the file has shrunk, the error is raised when a reader requests the same bytes.
            size = min(_BLOCK, file.size)
            with suppress(OSError), self._files.open(file.path) as opened:
                if len(data := opened.read(size)) == size:
                    file.write(0, data)

    def open(self, path: Path) -> FileIO:
        """Open a file. Raises OSError."""
        known = self._known.get(str(path))
        return _LazyFile(self, known) if known is not None else FileIO(path, "rb")

    def fetch(self, path: Path) -> None:
        """Fetch a complete file. Raises OSError."""
        known = self._known.get(str(path))
        if known is not None:
            self.need(known, 0, known.size)

    def need(self, file: _MirroredFile, start: int, end: int) -> None:
        """Fetch the missing bytes of a range. Raises OSError."""
        for first, last in list(file.missing(start, min(end, file.size))):
            try:
                data = self._read(file.path, first, last - first)
            except (FileNotFoundError, PermissionError):
                raise
            except OSError as error:
                if any(word in str(error) for word in _DENIED):
                    raise PermissionError(EACCES, "permission denied", self.start + file.path) from error
                self._fail(file, str(error))
            if len(data) < last - first:
                self._fail(file, "the file changed while it was read")
            file.write(first, data)

    def _read(self, path: str, start: int, size: int) -> bytes:
        if path not in self._open:
            while len(self._open) >= _MOST_OPEN:
                self._open.popitem(last=False)[1].close()
            self._open[path] = self._files.open(path)
        self._open.move_to_end(path)
        opened = self._open[path]
        opened.seek(start)
        data: bytes = opened.read(size)
        return data

    def _fail(self, file: _MirroredFile, why: str) -> None:
        self.failure = self.failure or f"{self.start}{file.path}: {why}"
        raise OSError(EIO, why, self.start + file.path)

    def close(self) -> None:
        """Close all open files."""
        while self._open:
            self._open.popitem()[1].close()


class _MirroredFile:
    """A file of a mirror, and which of its blocks have been fetched."""

    def __init__(self, path: str, local: Path, size: int) -> None:
        self.path = path
        self.local = local
        self.size = size
        self._present: set[int] = set()
        """The numbers of the blocks that have been fetched."""
        self._next = -1
        """The number of the block after the last fetch."""

    def missing(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges to fetch before these bytes can be read."""
        wanted = [block for block in range(start // _BLOCK, -(-end // _BLOCK)) if block not in self._present]
        if wanted and wanted[0] == self._next and wanted[0] > 0:
            # The file is being read sequentially.
            wanted = [block for block in range(wanted[0], wanted[0] + _AHEAD // _BLOCK) if block not in self._present]
        while wanted:
            count = next((at for at, block in enumerate(wanted) if block != wanted[0] + at), len(wanted))
            yield wanted[0] * _BLOCK, min((wanted[0] + count) * _BLOCK, self.size)
            wanted = [block for block in wanted[count:] if block * _BLOCK < self.size]

    def write(self, start: int, data: bytes) -> None:
        """Store fetched bytes."""
        with self.local.open("r+b") as file:
            file.seek(start)
            file.write(data)
        self._next = -(-(start + len(data)) // _BLOCK)
        self._present.update(range(start // _BLOCK, self._next))


class _LazyFile(FileIO):
    """A file of a mirror, opened for reading, that fetches missing bytes."""

    def __init__(self, mirror: Mirror, file: _MirroredFile) -> None:
        super().__init__(file.local, "rb")
        self._mirror = mirror
        self._file = file

    def read(self, size: int | None = -1, /) -> bytes:
        self._need(-1 if size is None else size)
        return super().read(-1 if size is None else size) or b""

    def readall(self) -> bytes:
        self._need(-1)
        return super().readall() or b""

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        self._need(memoryview(buffer).nbytes)
        return super().readinto(buffer) or 0

    def _need(self, size: int) -> None:
        position = self.tell()
        self._mirror.need(self._file, position, self._file.size if size < 0 else position + size)


@contextmanager
def mount_mirrors(mirrors: list[Mirror]) -> Iterator[None]:
    """Make readers open and list files through these mirrors, which are closed at the end."""
    with ExitStack() as stack:
        for mirror in mirrors:
            stack.callback(mirror.close)
            stack.enter_context(mounted(mirror.folder, mirror))
        yield
