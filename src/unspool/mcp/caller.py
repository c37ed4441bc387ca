"""Which session asks: answers leave out what the agent has just said or read itself."""

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
    """The sessions that a call comes from, as far as the agents say. One agent may have started another.

    Where an agent does not say which session, it is the one that was written last `since` the server was started.
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
