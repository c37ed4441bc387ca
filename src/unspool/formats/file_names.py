"""File names of exported sessions."""

from __future__ import annotations

import unicodedata
from hashlib import blake2b
from itertools import chain, count

_LONGEST = 160
"""Maximum bytes of a name without its suffix. Most file systems allow 255, and temporary files have longer names."""


def safe_name(id: str) -> str:
    """Return a file name for a session. Its id comes from a log, so it must not escape the directory.

    A name that is too long is cut, and ends with a digest of the id instead.
    """
    name = "".join(sign if sign.isalnum() or sign in "-_." else "_" for sign in id).strip(".") or "session"
    data = name.encode()
    if len(data) <= _LONGEST:
        return name
    digest = blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{data[: _LONGEST - len(digest) - 1].decode('utf-8', 'ignore')}-{digest}"


class FileNames:
    """Returns a different name for each session: copies of a home directory have the same ids.

    Names that only differ in case or in the form of accented letters count as the same, because some file systems do
    not distinguish them.
    """

    def __init__(self, *taken: str) -> None:
        self._taken = {_key(name) for name in taken}

    def next(self, id: str) -> str:
        """Return an unused name."""
        stem = safe_name(id)
        names = chain([stem], (f"{stem}-{number}" for number in count(2)))
        name = next(name for name in names if _key(name) not in self._taken)
        self._taken.add(_key(name))
        return name


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
