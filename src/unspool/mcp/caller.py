"""Finds the session that a request comes from: responses leave out what the agent has just written or read itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ..agents import AGENTS, ToolCaller
from .scope import Caller


def find_callers(
    meta: Mapping[str, Any],
    environment: Mapping[str, str],
    processes: tuple[int, ...],
    homes: Iterable[tuple[str, Path]],
    since: datetime | None = None,
) -> list[Caller]:
    """Return the sessions that a call comes from, as far as the agents say. One agent may have started another.

    If an agent does not name its session, it is assumed to be the one written last, at or after `since`, which is when
    the server started. Without `since`, such an agent is ignored.
    """
    roots: dict[str, list[Path]] = {}
    for name, root in homes:
        roots.setdefault(name, []).append(root)
    found = []
    for name, agent in AGENTS.items():
        caller = ToolCaller(meta=meta, environment=environment, processes=processes, roots=tuple(roots.get(name, ())))
        session = agent.calling_session(caller)
        if session:
            found.append(Caller(name, session))
        elif since is not None and agent.is_calling(caller):
            found.append(Caller(name, since=since))
    return found
