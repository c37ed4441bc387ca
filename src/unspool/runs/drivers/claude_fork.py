"""Where a fork of Claude Code goes off that the program would not find by itself.

The program looks for the message only on the line that it would go on with, and says that there is none elsewhere. It
does take a file in place of an id: a copy that ends with the message has no later line that it could prefer.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ...library import Library
from ..protocol import RunSpec, folder_of

_PIECE = 1 << 20


def copy_for_fork(spec: RunSpec) -> Path | None:
    """A copy of the session up to the message, where that is on a line that was left. Whoever asked removes it."""
    if not spec.fork or spec.session is None or spec.at is None:
        return None
    library = Library(folder_of("claude", spec))
    session = library.load(library.find(spec.session))
    found = next((message for message in session.messages if message.id == spec.at), None)
    if found is None or found.branch == 0:
        return None
    # Only the user may read it, as it is with the session itself.
    handle, name = tempfile.mkstemp(prefix="unspool-fork-", suffix=".jsonl")
    left = found.source.offset + found.source.length
    with open(session.info.files[found.source.file].path, "rb") as file, os.fdopen(handle, "wb") as copy:
        while left > 0 and (piece := file.read(min(left, _PIECE))):
            copy.write(piece)
            left -= len(piece)
        copy.write(b"\n")
    return Path(name)
