"""Copies a session for forks that Claude Code cannot do by itself.

The program looks for the message only on the branch that it would resume; for a message on another branch, it reports
that the message does not exist. But it accepts a file instead of a session id, and in a copy that ends with the
message, the branch of the message is the one that it resumes.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ...library import Library
from ..protocol import RunSpec, agent_folder

_CHUNK = 1 << 20


def copy_for_fork(spec: RunSpec) -> Path | None:
    """Copy the session up to the message, if that is on an abandoned branch. The caller removes the copy."""
    if not spec.fork or spec.session is None or spec.at is None:
        return None
    library = Library(agent_folder("claude", spec))
    session = library.load(library.find(spec.session))
    found = next((message for message in session.messages if message.id == spec.at), None)
    if found is None or found.branch == 0:
        return None
    remaining = found.source.offset + found.source.length
    with open(session.info.files[found.source.file].path, "rb") as file:
        # Like the session itself, the copy is readable only by the user.
        handle, name = tempfile.mkstemp(prefix="unspool-fork-", suffix=".jsonl")
        try:
            with os.fdopen(handle, "wb") as copy:
                while remaining > 0 and (chunk := file.read(min(remaining, _CHUNK))):
                    copy.write(chunk)
                    remaining -= len(chunk)
                copy.write(b"\n")
        except BaseException:
            os.unlink(name)
            raise
    return Path(name)
