"""A file system that fails: every call for something below a folder is counted, and one of them goes wrong."""

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

FileCall = Literal["open", "read", "stat", "scandir", "create", "write", "mkdir", "replace"]
"""`open` is for reading, and `create` for writing."""
Which = Callable[[FileCall, Path], bool]

ERRORS = {name: getattr(errno, name) for name in ("EIO", "EACCES", "ESTALE")}
_FUNCTIONS: tuple[FileCall, ...] = ("stat", "scandir", "mkdir", "replace")
"""Functions of `os` with a path as their first argument."""


class Call(NamedTuple):
    """A call of the file system."""

    kind: FileCall
    path: Path


class FileFaults:
    """Counts the calls for files below a folder, and lets some of them go wrong."""

    def __init__(self, root: Path, act: Callable[[int, Call], int | None] | None = None) -> None:
        """`act` gets the number of each call and the call. It may raise, or change the disk.

        What it returns for `read` is the number of bytes that are read at most.
        """
        self._root = str(root)
        self._act = act
        self.calls: list[Call] = []

    @contextmanager
    def active(self) -> Iterator[FileFaults]:
        """Watch the calls in a block."""
        real_open = open

        def watched_open(path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            if not self._is_watched(path):
                return real_open(path, mode, *args, **options)
            self.happens("open" if "r" in mode else "create", path)
            return _WatchedFile(self, Path(path), real_open(path, mode, *args, **options))

        with ExitStack() as stack:
            for module in (builtins, io):
                stack.enter_context(mock.patch.object(module, "open", watched_open))
            for name in _FUNCTIONS:
                stack.enter_context(mock.patch.object(os, name, self._watched(name, getattr(os, name))))
            yield self

    def _watched(self, kind: FileCall, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *args: Any, **options: Any) -> Any:
            if self._is_watched(path):
                self.happens(kind, path)
            return real(path, *args, **options)

        return call

    def _is_watched(self, path: Any) -> bool:
        return isinstance(path, str | Path) and str(path).startswith(self._root)

    def happens(self, kind: FileCall, path: str | Path) -> int | None:
        """Count a call, and let it go wrong."""
        call = Call(kind, Path(path))
        self.calls.append(call)
        return self._act(len(self.calls) - 1, call) if self._act is not None else None


class _WatchedFile:
    """An open file."""

    def __init__(self, faults: FileFaults, path: Path, file: Any) -> None:
        self._faults = faults
        self._path = path
        self._file = file

    def read(self, size: int = -1) -> Any:
        most = self._faults.happens("read", self._path)
        if most is not None:
            size = min(size, most) if size >= 0 else most
        return self._file.read(size)

    def write(self, data: Any) -> Any:
        self._faults.happens("write", self._path)
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _WatchedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def error(code: int, call: Call) -> OSError:
    """An error of the system in a call."""
    return OSError(code, os.strerror(code), str(call.path))


def failing(root: Path, which: Which, code: int = errno.EIO) -> FileFaults:
    """All calls for which `which` is true fail with an error."""

    def act(_: int, call: Call) -> None:
        if which(*call):
            raise error(code, call)

    return FileFaults(root, act)
