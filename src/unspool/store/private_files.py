"""Files that only their owner can read: what unspool keeps is other people's source code, prompts and secrets."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if os.name == "posix":
    import fcntl

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def make_private_folder(folder: Path) -> None:
    """Create a folder that only its owner can enter. One that exists keeps its mode."""
    folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)


def create_private(path: Path) -> None:
    """Create an empty file for its owner alone; one that exists is closed to everybody else."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
        return
    close_to_others(path)


def close_to_others(path: Path) -> None:
    """Take all rights to a file from other users, if it is ours."""
    with suppress(OSError):
        if path.stat().st_mode & 0o077:
            path.chmod(FILE_MODE)


def replace_private(path: Path, data: bytes) -> None:
    """Replace a file by another, at once and for its owner alone."""
    make_private_folder(path.parent)
    new = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
            file.write(data)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of such a block for the same file, where the system has locks for that."""
    make_private_folder(path.parent)
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_WRONLY | os.O_CREAT, FILE_MODE)
    try:
        if os.name == "posix":
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
