"""The shell command that resumes a stored session."""

from __future__ import annotations

import os
import shlex

from ..agents import AGENTS
from .rows import SessionRow
from .store import Store


def resume_command(store: Store, row: SessionRow) -> str | None:
    """The command that resumes a session.

    None if its files are not on this machine, if it is a sub-agent, or if its agent has no such command.
    """
    template = AGENTS[row.agent].info.resume if row.agent in AGENTS else ()
    if not template or row.kind != "main" or not store.sessions.not_marked_gone((row.id,)):
        return None
    command = shlex.join(part.replace("{id}", row.name) for part in template)
    # If the folder of a project is unknown, its name is stored instead.
    if row.project is None or not os.path.isabs(row.project):
        return command
    return f"cd {shlex.quote(row.project)} && {command}"
