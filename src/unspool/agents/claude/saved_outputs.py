"""Finds outputs that were too large for the conversation, which Claude Code saves in files."""

from __future__ import annotations

import re
from pathlib import Path

from ...core import model as m
from ...io.files import read_first

FOLDER = "tool-results"
MARK = "<persisted-output>"
_SAVED_TO = re.compile(r"saved to: (?P<path>.*[/\\](?P<session>[^/\\\n]+)[/\\]tool-results[/\\](?P<name>[^/\\\n]+))\n")
_MOST = 1 << 20


class SavedOutputs:
    """The saved outputs of one session. Only folders of its project are read, whatever path a record names."""

    def __init__(self, project: Path, session: str) -> None:
        self._project = project
        self._session = session

    def find(self, content: str) -> m.SavedOutput | None:
        """Return the output that a truncated result refers to; that of a fork may be in the folder of its original."""
        found = _SAVED_TO.search(content, 0, 4096)
        if found is None or found["name"] in (".", "..") or found["session"] in (".", ".."):
            return None
        for session in (self._session, found["session"]):
            read = read_first(self._project / session / FOLDER / found["name"], _MOST)
            if read is not None:
                data, size = read
                return m.SavedOutput(found["path"], size, data.decode("utf-8", "replace"))
        return m.SavedOutput(found["path"])
