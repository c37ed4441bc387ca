"""A copy of a session for forks that Claude Code cannot do by itself.

The program looks for the message only on the branch that it would resume, and reports that it does not exist
elsewhere. But it accepts a file in place of a session id, and in a copy that ends with the message there is no later
branch it could prefer.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ...library import Library
from ..protocol import RunSpec, agent_folder

_CHUNK = 1 << 20


def copy_for_fork(spec: RunSpec) -> Path | None:
    """A copy of the session up to the message if that is on an abandoned branch. The caller removes it."""
    if not spec.fork or spec.session is None or spec.at is None:
        return None
    library = Library(agent_folder("claude", spec))
    session = library.load(library.find(spec.session))
    found = next((message for message in session.messages if message.id == spec.at), None)
    if found is None or found.branch == 0:
        return None
    # Only the user may read it, like the session itself.
    handle, name = tempfile.mkstemp(prefix="unspool-fork-", suffix=".jsonl")
    remaining = found.source.offset + found.source.length
    with open(session.info.files[found.source.file].path, "rb") as file, os.fdopen(handle, "wb") as copy:
        while remaining > 0 and (chunk := file.read(min(remaining, _CHUNK))):
            copy.write(chunk)
            remaining -= len(chunk)
        copy.write(b"\n")
    return Path(name)
