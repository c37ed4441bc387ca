"""Finds and opens the store, in the user's data directory or at a given location."""

from __future__ import annotations

import os
import platform
import re
import sys
import uuid
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import NotFoundError, NotWritableError, UnspoolError
from ..io.faults import describe_fault
from ..io.listing import may_exist, read_file
from .private_files import make_private_folder, replace_private, restrict_database, sync_folder

if TYPE_CHECKING:
    from .backends.sqlite import SqliteDatabase
    from .store import Store

STORE_VARIABLE = "UNSPOOL_STORE"
STORE_NAME = "sessions.db"
_ELSEWHERE = "choose another data directory with UNSPOOL_DATA"
_KEY = re.compile("[0-9a-f]{32}")


def data_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The data directory: the only folder that unspool writes to."""
    environ = os.environ if environ is None else environ
    names = ("UNSPOOL_DATA", "LOCALAPPDATA", "XDG_DATA_HOME")
    return _data_folder(*map(environ.get, names), os.environ.get("HOME"))


@lru_cache(maxsize=8)
def _data_folder(named: str | None, local: str | None, shared: str | None, _: str | None) -> Path:
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        return Path(local or Path.home() / "AppData" / "Local") / "unspool"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "unspool"
    return Path(shared or Path.home() / ".local" / "share") / "unspool"


def machine_identity(folder: Path, store: Path | None = None, *, read_only: bool = False) -> tuple[str, str]:
    """Return a permanent key for this machine and user, and a display name.

    If the file with the key is missing or incomplete, the key is recovered from the store: with another key, every
    session would be imported a second time. `store` is the path of a store outside the folder.
    """
    path = folder / "machine"
    found = key = _key_in(path)
    if not _KEY.fullmatch(found):
        key = _known_key(folder, store or folder / STORE_NAME, found)
        if not read_only and (key != found or not key):
            key = _written_key(path, key)
    return key, platform.node() or "this machine"


def _written_key(path: Path, key: str) -> str:
    _make_folder(path.parent)
    try:
        return _make_key(path, key or uuid.uuid4().hex)
    except OSError as error:
        raise NotWritableError(f"{path} cannot be written: {error.strerror}; {_ELSEWHERE}") from error


def _key_in(path: Path) -> str:
    try:
        return read_file(path).decode("ascii", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise UnspoolError(f"{path} cannot be read: {error.strerror}; {_ELSEWHERE}") from error


def _known_key(folder: Path, store: Path, torn: str) -> str:
    """Return the key that a store has for this machine; empty if that is not known.

    It is the key that begins with `torn`, the content of an incomplete file. Otherwise, a store in the data directory
    was created by this machine. A store elsewhere may have been created by another machine, unless it knows only one,
    which has the name of this machine, and this machine had a key before.
    """
    from .backends.sqlite import machines_in

    machines = machines_in(store) if store.is_file() else []
    for key, _ in machines:
        if torn and key.startswith(torn):
            return key
    is_own = store == folder / STORE_NAME or (
        (folder / "machine").exists() and [name for _, name in machines] == [platform.node()]
    )
    return machines[0][0] if machines and is_own else ""


def _make_key(path: Path, key: str) -> str:
    """Write a key and return it. If several processes start at once, the first key wins; no file is ever incomplete."""
    new = path.with_name(f"{path.name}-{uuid.uuid4().hex}")
    replace_private(new, f"{key}\n".encode(), durable=True)
    try:
        if path.exists() and not _KEY.fullmatch(_key_in(path)):
            new.replace(path)
        else:
            _put_if_missing(new, path)
    finally:
        new.unlink(missing_ok=True)
    sync_folder(path.parent)
    return _key_in(path) or key


def _put_if_missing(new: Path, path: Path) -> None:
    try:
        path.hardlink_to(new)
    except FileExistsError:
        pass
    except OSError:
        # A file system without hard links. At least do not overwrite what another process has just written.
        if not path.exists():
            new.replace(path)


def open_store(
    location: str | None = None, *, read_only: bool = False, environ: Mapping[str, str] | None = None
) -> Store:
    """Open the store at a path or URL, or the one in the user's data directory."""
    from .store import Store

    environ = os.environ if environ is None else environ
    location = location or environ.get(STORE_VARIABLE)
    folder = data_folder(environ)
    path = store_path(location, environ)
    if path is None:
        from .backends.postgres import PostgresDatabase

        return Store(PostgresDatabase(location or "", machine=machine_identity(folder)))
    if read_only and not may_exist(path):
        raise NotFoundError(f"there is no store at {path} yet; `unspool sync` creates one")
    try:
        return Store(_open_file(path, folder, read_only, restrict=not location))
    except OSError as error:
        raise UnspoolError(
            f"the store {path} cannot be opened: {describe_fault(error)}; choose another one with --store, or another "
            "data directory with UNSPOOL_DATA"
        ) from error


def store_path(location: str | None = None, environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the file of the store that `open_store` opens; None if it is on a server."""
    environ = os.environ if environ is None else environ
    location = location or environ.get(STORE_VARIABLE)
    if location is not None and location.startswith(("postgresql://", "postgres://")):
        return None
    return Path(location).expanduser() if location else data_folder(environ) / STORE_NAME


def _open_file(path: Path, folder: Path, read_only: bool, *, restrict: bool) -> SqliteDatabase:
    from .backends.sqlite import SqliteDatabase

    if not read_only:
        _make_folder(path.parent)
    if restrict:
        restrict_database(path)
    machine = machine_identity(folder, path, read_only=read_only)
    return SqliteDatabase(path, machine=machine, read_only=read_only)


def _make_folder(folder: Path) -> None:
    try:
        make_private_folder(folder)
    except OSError as error:
        raise NotWritableError(f"{folder} cannot be created: {error.strerror}; {_ELSEWHERE}") from error
