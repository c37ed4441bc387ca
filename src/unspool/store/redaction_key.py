"""Redaction with the key of this machine, so that a secret has the same placeholder in all exported data."""

from __future__ import annotations

import getpass
import socket
from contextlib import suppress
from pathlib import Path

from ..io.listing import read_file
from ..redact import PersonalData, Redactor, new_key
from .locate import data_folder
from .private_files import make_private_folder, replace_private

_NAME = "redaction-key"


def make_redactor(*, personal: bool = False) -> Redactor:
    """A redactor with the key of this machine; with `personal`, it knows the names of the user and the host."""
    known = PersonalData([_user()], [socket.gethostname()]) if personal else None
    return Redactor(redaction_key(data_folder()), personal=known)


def redaction_key(folder: Path) -> bytes:
    """Return the key in a data directory, creating it if necessary.

    If it cannot be read or saved, each call creates one. A key that cannot be read now is not replaced.
    """
    path = folder / _NAME
    try:
        if key := read_file(path):
            return key
    except FileNotFoundError:
        pass
    except OSError:
        return new_key()
    key = new_key()
    with suppress(OSError):
        make_private_folder(folder)
        replace_private(path, key)
    return key


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
