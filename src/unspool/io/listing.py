"""Lists and opens files in folders that may contain anything: pipes, devices, circular links, unreadable folders."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from errno import EINVAL
from io import FileIO
from operator import attrgetter
from pathlib import Path
from typing import Protocol

from .faults import GONE, NotRegularError, reason_of, report_fault

_NOT_REGULAR = "not a regular file"
NotListed = Callable[[Path, str], None]
"""Called with each path that was found but cannot be listed, and the reason."""


class Mount(Protocol):
    """A folder of files that have the right names and sizes, but whose bytes are elsewhere until they are read."""

    def open(self, path: Path) -> FileIO:
        """Open a file below the folder. Raises OSError."""
        ...

    def fetch(self, path: Path) -> None:
        """Fetch all bytes of a file, for code that does not open it through this mount. Raises OSError."""
        ...


_mounts: dict[str, Mount] = {}


@contextmanager
def mounted(folder: Path, mount: Mount) -> Iterator[None]:
    """Read files below a folder through a mount."""
    _mounts[f"{folder}{os.sep}"] = mount
    try:
        yield
    finally:
        del _mounts[f"{folder}{os.sep}"]


def _mount_of(path: Path) -> Mount | None:
    return next((mount for folder, mount in _mounts.items() if str(path).startswith(folder)), None) if _mounts else None


def open_file(path: Path) -> FileIO:
    """Open a file for reading. Raises OSError, also for anything but a regular file.

    Opening a pipe would wait until some program writes to it, and a device may never end.
    """
    mount = _mount_of(path)
    return mount.open(path) if mount is not None else open(path, "rb", buffering=0, opener=_open_regular)


def check_regular(path: Path) -> None:
    """Raise an error if something other than a file or a folder is at a path: opening a pipe would block."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise NotRegularError(EINVAL, _NOT_REGULAR, str(path))


def read_file(path: Path) -> bytes:
    """Return the contents of a small file. Raises OSError, also for anything but a regular file."""
    with open_file(path) as file:
        return file.read()


def fetch_file(path: Path) -> None:
    """Make all bytes of a file available to code that does not use `open_file`. Raises OSError."""
    mount = _mount_of(path)
    if mount is not None:
        mount.fetch(path)


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise NotRegularError(EINVAL, _NOT_REGULAR, path)


def why_no_file(path: Path) -> str:
    """Return the reason why there is no file to read at a path."""
    if path.is_dir():
        return "is a directory"
    return _NOT_REGULAR if path.exists() else "no such file"


def files_in(folder: Path, suffix: str = "") -> list[Path]:
    """Return the regular files directly in a folder, and links to such, by suffix; none if it cannot be read."""
    entries = [entry for entry in _entries(str(folder)) if entry.name.endswith(suffix)]
    return [folder / entry.name for entry in entries if _kind(entry) == "file"]


def folders_in(folder: Path) -> list[Path]:
    """Return the folders directly in a folder, and links to others, each once; none if it cannot be read."""
    kinds = [(entry, _kind(entry)) for entry in _entries(str(folder))]
    found = [entry for entry, kind in kinds if kind == "folder"]
    links = [entry for entry, kind in kinds if kind == "link"]
    if links:
        known = _KnownFolders(str(folder), *(entry.path for entry in found))
        found += [link for link in links if known.add_link(link.path)]
    return [folder / entry.name for entry in found]


def walk_files(folder: Path, not_listed: NotListed | None = None) -> Iterator[Path]:
    """Yield all regular files below a folder, in the order of their names, then those below links to other folders.

    Each folder is walked once, however many links lead to it. `not_listed` is called for folders that cannot be read,
    and for what is neither a file nor a folder.
    """
    return (Path(entry.path) for entry in walk_entries(folder, not_listed))


def walk_entries(folder: Path, not_listed: NotListed | None = None) -> Iterator[os.DirEntry[str]]:
    """Like `walk_files`, but yield directory entries, whose state is cheaper to get than that of a path."""
    folders, links = [str(folder)], deque[str]()
    known = _KnownFolders(str(folder))
    while folders or links:
        if not folders:
            link = links.popleft()
            folders += [link] if known.add_link(link) else []
            continue
        inner = []
        for entry in _entries(folders.pop(), not_listed):
            kind = _kind(entry)
            if kind == "file":
                yield entry
            elif kind == "folder":
                inner.append(entry.path)
            elif kind == "link":
                links.append(entry.path)
            elif kind and not_listed is not None:
                not_listed(Path(entry.path), kind)
        known.add(inner)
        folders += reversed(inner)


class _KnownFolders:
    """The folders found so far, and those above them. A link may lead to one of them under another name."""

    def __init__(self, top: str, *inner: str) -> None:
        self._names = [top, *inner]
        """Folders whose identities were not needed yet: links are rare."""
        self._top = top
        self._identities: set[tuple[int, int]] = set()

    def add(self, folders: Iterable[str]) -> None:
        """Add folders that are not links."""
        self._names += folders

    def add_link(self, link: str) -> bool:
        """Add the folder that a link leads to; returns whether it is new. Links to folders above would be circular."""
        if not self._identities:
            self._names += map(str, Path(os.path.realpath(self._top)).parents)
        self._identities.update(identity for name in self._names if (identity := identity_of(name)) is not None)
        self._names.clear()
        identity = identity_of(link)
        is_new = identity is not None and identity not in self._identities
        if identity is not None:
            self._identities.add(identity)
        return is_new


def may_exist(path: str | Path) -> bool:
    """Whether there is something at a path. If that cannot be found out, it may be there: an error is not a fact."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    return True


def may_be_folder(path: Path) -> bool:
    """Whether there is a folder at a path. If that cannot be found out, there may be one."""
    try:
        return path.is_dir()
    except OSError as error:
        report_fault(error, path)
        return True


def identity_of(path: str) -> tuple[int, int] | None:
    """Return the device and inode of the file or folder at a path, which identify it; None if there is none."""
    try:
        facts = os.stat(path)
    except OSError as error:
        report_fault(error, path)
        return None
    return facts.st_dev, facts.st_ino


def unlisted_in(start: Path) -> list[tuple[Path, str]]:
    """Return what `walk_files` leaves out at or below a path, with the reason."""
    found: list[tuple[Path, str]] = []
    try:
        mode = start.stat().st_mode
    except GONE:
        return []
    except OSError as error:
        report_fault(error, start)
        return [(start, reason_of(error))]
    if stat.S_ISDIR(mode):
        deque(walk_files(start, lambda path, why: found.append((path, why))), maxlen=0)
    elif not stat.S_ISREG(mode):
        found.append((start, _NOT_REGULAR))
    return found


def _entries(folder: str, not_listed: NotListed | None = None) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=attrgetter("name"))
    except OSError as error:
        report_fault(error, folder)
        if not_listed is not None and not isinstance(error, FileNotFoundError):
            not_listed(Path(folder), error.strerror or str(error))
        return []


def _kind(entry: os.DirEntry[str]) -> str:
    """Return `file`, `folder`, `link` (to a folder), or why it is none of them; empty for a broken link.

    One entry that cannot be examined, such as a link to itself, must not hide the others.
    """
    try:
        # Most are files.
        if entry.is_file():
            return "file"
        if entry.is_dir():
            return "link" if entry.is_symlink() else "folder"
        return "" if entry.is_symlink() else _NOT_REGULAR
    except OSError as error:
        report_fault(error, entry.path)
        return error.strerror or str(error)
