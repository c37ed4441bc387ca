"""Lists and opens files in folders where anything may be: pipes, devices, links in circles, closed folders."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from errno import EINVAL
from io import FileIO
from pathlib import Path

from .faults import NotRegularError, note_fault

_NOT_REGULAR = "not a regular file"
NotListed = Callable[[Path, str], None]
"""Takes what was found but cannot be listed, and why."""


def open_file(path: Path) -> FileIO:
    """Open a file for reading. Raises OSError, also for anything but a regular file.

    Opening a pipe would wait until some program writes to it, and a device may never end.
    """
    return open(path, "rb", buffering=0, opener=_open_regular)


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise NotRegularError(EINVAL, _NOT_REGULAR, path)


def files_in(folder: Path) -> list[Path]:
    """The regular files directly in a folder, and links to some; none if it cannot be read."""
    return [Path(entry.path) for entry in _entries(str(folder)) if _kind(entry, follow=True) == "file"]


def folders_in(folder: Path) -> list[Path]:
    """The folders directly in a folder, and links to some; none if it cannot be read."""
    return [Path(entry.path) for entry in _entries(str(folder)) if _kind(entry, follow=True) == "folder"]


def walk_files(folder: Path, not_listed: NotListed | None = None) -> Iterator[Path]:
    """All regular files below a folder, in the order of their names; links to folders are not followed.

    `not_listed` is called for folders that cannot be read, and for what is neither a file nor a folder.
    """
    folders = [str(folder)]
    while folders:
        inner = []
        for entry in _entries(folders.pop(), not_listed):
            kind = _kind(entry, follow=False)
            if kind == "file":
                yield Path(entry.path)
            elif kind == "folder":
                inner.append(entry.path)
            elif kind and not_listed is not None:
                not_listed(Path(entry.path), kind)
        folders += reversed(inner)


def unlisted_in(place: Path) -> list[tuple[Path, str]]:
    """What is at a path, or below it, that `walk_files` leaves out, and why."""
    found: list[tuple[Path, str]] = []
    if place.is_dir():
        deque(walk_files(place, lambda path, why: found.append((path, why))), maxlen=0)
    elif place.exists() and not place.is_file():
        found.append((place, _NOT_REGULAR))
    return found


def _entries(folder: str, not_listed: NotListed | None = None) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        note_fault(error, Path(folder))
        if not_listed is not None and not isinstance(error, FileNotFoundError):
            not_listed(Path(folder), error.strerror or str(error))
        return []


def _kind(entry: os.DirEntry[str], follow: bool) -> str:
    """`file`, `folder`, or why it is neither; empty for a link that leads nowhere or to a folder.

    One entry that cannot be looked at, such as a link to itself, must not hide the others.
    """
    try:
        if entry.is_dir(follow_symlinks=follow):
            return "folder"
        if entry.is_file():
            return "file"
        return "" if entry.is_symlink() else _NOT_REGULAR
    except OSError as error:
        note_fault(error, Path(entry.path))
        return error.strerror or str(error)
