"""The response of the current turn in a file, so that it survives if the server is killed.

Every piece is appended as it arrives. The file is not synced: what was written stays in the system's cache when the
program is killed, and is lost only if the machine loses power.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ..store.private_files import make_private_folder, open_private
from .live_text import MAX_LIVE_TEXT, LiveText

_LONGEST_CHARACTER = 4
"""The most bytes that a character takes in UTF-8."""


class LiveTextFile:
    """The file of one run. It exists while the model is writing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def append(self, text: str) -> None:
        """Append a piece. Errors such as a full disk are ignored: the text is lost only if the server is killed."""
        with suppress(OSError):
            if self._file is None:
                make_private_folder(self._path.parent)
                self._file = open_private(self._path)
            self._file.write(text.encode("utf-8", "surrogatepass"))
            self._file.flush()

    def remove(self) -> None:
        """Remove the file, because the response is complete or stored elsewhere."""
        if self._file is None:
            return
        with suppress(OSError):
            self._file.close()
        self._file = None
        self._path.unlink(missing_ok=True)


def recover_live_text(path: Path) -> LiveText | None:
    """Return the response left by a run whose server was killed, if any, and remove its file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - MAX_LIVE_TEXT * _LONGEST_CHARACTER))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    path.unlink(missing_ok=True)
    if not text.strip():
        return None
    found = LiveText(turn=0, is_cut_off=True)
    found.append(text)
    return found
