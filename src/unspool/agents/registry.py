"""The table of agents: those that come with unspool, and those of installed packages.

A package adds an agent with an entry point in the group `unspool.agents` that names a subclass of `Agent`:

    [project.entry-points."unspool.agents"]
    acme = "acme_unspool:AcmeAgent"
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._entry_points import entry_points_in
from .base import Agent, AgentInfo, SessionSource
from .claude import Claude
from .codex import Codex
from .gemini import Gemini

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "unspool.agents"
_OWN = "unspool"


class AgentRegistry(Mapping[str, Agent]):
    """Agents by name, in the order in which they are shown.

    Installed packages are looked up on first use. One whose agent cannot be loaded is logged and listed in
    `failures`; it affects no other agent.
    """

    def __init__(self, built_in: Sequence[Agent]) -> None:
        self._agents: dict[str, Agent] = {}
        self._origins: dict[str, str] = {}
        self._failures: dict[str, str] = {}
        self._is_loading = False
        self._has_plugins = False
        self._lock = threading.RLock()
        for agent in built_in:
            self.register(agent, _OWN)

    def __getitem__(self, name: str) -> Agent:
        return self._loaded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    @property
    def failures(self) -> Mapping[str, str]:
        """Why agents of installed packages could not be loaded, by the name of their entry point."""
        self._loaded()
        return self._failures

    def register(self, agent: Agent, origin: str = "this program") -> None:
        """Add an agent from `origin`. Raises ValueError if there is another one with its name."""
        name = agent.info.name
        with self._lock:
            if name in self._agents:
                known = self._origins[name]
                raise ValueError(f"{origin} has an agent {name!r}, but {known} has one with the same name")
            # Another thread may be going through the table, so it is replaced instead of changed.
            self._agents = {**self._agents, name: agent}
            self._origins[name] = origin

    def unregister(self, name: str) -> None:
        """Remove an agent that was registered."""
        with self._lock:
            del self._origins[name]
            self._agents = {other: agent for other, agent in self._agents.items() if other != name}

    def _loaded(self) -> dict[str, Agent]:
        if not self._has_plugins:
            with self._lock:
                # A package that uses the table while it is imported sees it without the packages.
                if not self._has_plugins and not self._is_loading:
                    self._is_loading = True
                    try:
                        self._load_plugins()
                    finally:
                        self._has_plugins = True
        return self._agents

    def _load_plugins(self) -> None:
        for point in entry_points_in(GROUP):
            origin = _origin(point)
            try:
                self.register(_agent_of(point.load()), origin)
            except Exception as error:
                # Imported here because most programs log nothing, and start faster without it.
                from logging import getLogger

                # A package may raise anything while it is imported, which must not affect other agents.
                self._failures[point.name] = f"{type(error).__name__}: {error}"
                getLogger(__name__).warning(
                    "The agent %r of %s was not loaded: %s", point.name, origin, self._failures[point.name]
                )


def _origin(point: EntryPoint) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist is not None else f"entry point {point.value}"


def _agent_of(found: Any) -> Agent:
    agent = found() if isinstance(found, type) else found
    if not isinstance(agent, Agent):
        raise TypeError(f"{found!r} is not a subclass of unspool.agents.Agent")
    if not isinstance(getattr(agent, "info", None), AgentInfo):
        raise TypeError(f"{found!r} has no AgentInfo as `info`")
    return agent


AGENTS = AgentRegistry((Claude(), Codex(), Gemini()))


class _UnknownAgent(Agent):
    """A placeholder for an agent that is not installed, but has sessions in the store."""

    def __init__(self, name: str) -> None:
        self.info = AgentInfo(
            name="unknown", title=name, letter="?", folder=f".{name}", paths=(), suffixes=(), source=_no_source
        )


def _no_source(root: Path) -> SessionSource:
    raise LookupError(f"no installed agent reads {root}")


def agent_named(name: str) -> Agent:
    """The agent with a name, or a placeholder that only knows the name if it is not installed."""
    return AGENTS.get(name) or _UnknownAgent(name)
