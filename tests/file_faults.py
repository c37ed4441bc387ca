"""A file system that fails: every call that reads something below a folder is counted, and one of them goes wrong."""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unittest import mock

FileCall = Literal["open", "read", "stat", "scandir"]
"""`read` is any reading of an open file, and `stat` also that of an open one."""
Which = Callable[[FileCall, Path], bool]

ERRORS = {name: getattr(errno, name) for name in ("EIO", "EACCES", "ESTALE")}


class Call(NamedTuple):
    """A call of the file system."""

    kind: FileCall
    path: Path


class FileFaults:
    """Counts the calls for files below a folder, and lets some of them go wrong."""

    def __init__(self, root: Path, act: Callable[[int, Call], bytes | None] | None = None) -> None:
        """`act` gets the number of each call and the call. It may raise, or change the disk.

        What it returns for `read` is the number of bytes that are read at most: its length.
        """
        self._root = str(root)
        self._act = act
        self.calls: list[Call] = []

    @contextmanager
    def active(self) -> Iterator[FileFaults]:
        """Watch the calls in a block."""
        real: dict[str, Callable[..., Any]] = {"open": open, "stat": os.stat, "scandir": os.scandir}

        def watched_open(path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            if not self._is_watched(path) or "r" not in mode:
                return real["open"](path, mode, *args, **options)
            self._happens("open", path)
            return _WatchedFile(self, Path(path), real["open"](path, mode, *args, **options))

        def watched(kind: FileCall) -> Callable[..., Any]:
            def call(path: Any = ".", *args: Any, **options: Any) -> Any:
                if self._is_watched(path):
                    self._happens(kind, path)
                return real[kind](path, *args, **options)

            return call

        with ExitStack() as stack:
            for module, name, function in (
                (builtins, "open", watched_open), (io, "open", watched_open), (os, "stat", watched("stat")),
                (os, "scandir", watched("scandir")),
            ):  # fmt: skip
                stack.enter_context(mock.patch.object(module, name, function))
            yield self

    def _is_watched(self, path: Any) -> bool:
        return isinstance(path, str | Path) and str(path).startswith(self._root)

    def _happens(self, kind: FileCall, path: str | Path) -> int | None:
        call = Call(kind, Path(path))
        self.calls.append(call)
        result = self._act(len(self.calls) - 1, call) if self._act is not None else None
        return len(result) if result is not None else None

    def read(self, path: Path, read: Callable[[int], bytes], size: int) -> bytes:
        """Read some bytes of an open file."""
        most = self._happens("read", path)
        return read(size if most is None else min(size, most) if size >= 0 else most)


class _WatchedFile:
    """An open file."""

    def __init__(self, faults: FileFaults, path: Path, file: Any) -> None:
        self._faults = faults
        self._path = path
        self._file = file

    def read(self, size: int = -1) -> bytes:
        return self._faults.read(self._path, self._file.read, size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _WatchedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def failing(root: Path, which: Which, code: int = errno.EIO) -> FileFaults:
    """All calls for which `which` is true fail with an error."""

    def act(_: int, call: Call) -> None:
        if which(*call):
            raise OSError(code, os.strerror(code), str(call.path))

    return FileFaults(root, act)
