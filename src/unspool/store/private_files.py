"""Files that only their owner can read: unspool stores source code, prompts and secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal

if os.name == "posix":
    import fcntl

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_PERMISSIONS_OF_OTHERS = 0o077


def make_private_folder(folder: Path) -> None:
    """Create a folder that only its owner can enter. An existing one keeps its mode."""
    folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)


def create_private(path: Path) -> None:
    """Create an empty file that only its owner can use, if there is none.

    SQLite gives the files next to a database the same permissions. If the file cannot be created, opening it reports
    why.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))


def restrict_database(path: Path) -> None:
    """Revoke the permissions of other users for a database: earlier versions let them read it."""
    for each in (path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-lock"))):
        with suppress(OSError):
            mode = each.stat().st_mode
            if mode & _PERMISSIONS_OF_OTHERS:
                # No permission is added: the owner may have made the file read-only.
                each.chmod(mode & FILE_MODE)


def open_private(path: str | Path, mode: Literal["wb", "xb"] = "wb") -> BinaryIO:
    """Open a file for writing. Only its owner can read a new file; an existing one keeps its permissions."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, FILE_MODE))


def is_open_to_others(folder: Path) -> bool:
    """Whether other users can enter a folder. On Windows, folders inherit the permissions of the user's profile."""
    return os.name == "posix" and folder.exists() and bool(folder.stat().st_mode & _PERMISSIONS_OF_OTHERS)


def replace_private(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replace a file atomically; only its owner can read it. If `durable`, it is complete after a power failure."""
    make_private_folder(path.parent)
    new = path.with_name(f".{path.name}-{os.urandom(4).hex()}")
    try:
        with open_private(new, "xb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def replacing_private(path: Path) -> Iterator[BinaryIO]:
    """Write a file that replaces another when the block ends; if the block fails, nothing changes.

    Only its owner can read a new file; an existing one keeps its permissions. Anything but a regular file, such as a
    pipe, is written to directly.
    """
    if path.exists() and not path.is_file():
        with open_private(path) as file:
            yield file
        return
    path = path.resolve() if path.is_symlink() else path
    new = path.with_name(f".{path.name[:100]}-{os.urandom(4).hex()}")
    try:
        with open_private(new, "xb") as file:
            if path.exists():
                new.chmod(path.stat().st_mode & 0o777)
            yield file
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make sure that new files in a folder still exist after a power failure, if the system supports it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock for a file during the block. On systems without `flock`, there is no lock."""
    make_private_folder(path.parent)
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_WRONLY | os.O_CREAT, FILE_MODE)
    try:
        if os.name == "posix":
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
