"""What every agent has to offer: facts about it, a way to find its sessions, and a way to read one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from ..core import model as m
from ..core.builder import SessionBuilder
from ._repair import RepairStrategy


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about an agent that need no judgement."""

    name: str
    title: str
    folder: str
    """Of its sessions, inside a home directory."""
    variable: str
    """Environment variable that names the folder."""
    variable_is_home: bool = False
    """The variable names the home directory, not the folder in it."""
    places: tuple[str, ...]
    """Files, and folders with files, that matter in its folder."""
    resume: tuple[str, ...]
    """Command that goes on with a session; `{id}` stands for it."""


class SessionRef(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was found, before it is read."""

    agent: str
    id: str
    kind: m.Kind
    root: Path
    """The agent's folder it was found in."""
    path: Path
    """Its log, or the first of them."""
    more: tuple[Path, ...] = ()
    """Further files of the same session, in the order in which they are read."""
    parent: str | None = None
    """Of a sub-agent: the session that started it."""
    is_inside: bool = False
    """A sub-agent that stands in its session's own file."""
    archived: bool = False


class Peek(msgspec.Struct, frozen=True, kw_only=True):
    """What the first lines of a log tell, without reading the rest."""

    title: str | None = None
    project: m.Project | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    version: str | None = None
    size: int = 0


Steps = Generator[None, None, list[SessionBuilder]]
"""Reading, a block of the log at a time; what it returns are the drafts."""

BuilderFactory = Callable[[str, m.Kind], SessionBuilder | None]
"""Gives the draft for a session by its id, or None when its lines are not wanted."""


T = TypeVar("T")


def finish(steps: Generator[None, None, T]) -> T:
    """Take all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


class SessionSource(Protocol):
    """One agent's folder. It remembers what it has looked up, so it serves one pass over the sessions."""

    root: Path

    @property
    def live(self) -> dict[str, m.Status]:
        """Sessions that a running program has open, as far as the agent keeps a list of them."""
        ...

    def refs(self) -> Iterator[SessionRef]:
        """All sessions in the folder; files that hold none are left out."""
        ...

    def ref(self, path: Path) -> SessionRef | None:
        """The session that a file in the folder belongs to."""
        ...

    def lists(self, ref: SessionRef) -> bool:
        """Whether a session is one of `refs`, without finding them all."""
        ...

    def peek(self, ref: SessionRef) -> Peek:
        """Look at the beginning of a session."""
        ...

    def read(self, ref: SessionRef, make: BuilderFactory) -> Steps:
        """Read a session, and the sub-agents that stand in the same file."""
        ...

    def has_inline_subagents(self, ref: SessionRef) -> bool:
        """Whether sub-agents may stand in the session's own files."""
        ...

    def around(self, ref: SessionRef) -> str:
        """What else than its own files shapes a session: when this changes, it has to be read again."""
        ...


class Agent(Protocol):
    """A coding agent whose sessions can be read."""

    info: AgentInfo

    @property
    def repair_strategy(self) -> RepairStrategy:
        """Repairs copies of its logs."""
        ...

    def open(self, root: Path) -> SessionSource:
        """Its sessions in one folder."""
        ...

    def recognises(self, path: Path, head: bytes) -> bool:
        """Whether a file, found anywhere, is one of this agent's logs."""
        ...

    def root_of(self, path: Path) -> Path:
        """The agent's folder that a log lies in, or the log's own folder when it lies elsewhere."""
        ...

    def has_layout(self, folder: Path) -> bool:
        """Whether a folder of another name is one of this agent's."""
        ...

    def describe(self, name: str, raw_input: msgspec.Raw) -> m.Action:
        """What a call of one of its tools does."""
        ...

    def touched(self, name: str, raw_input: msgspec.Raw) -> list[str]:
        """The files that a call of one of its tools is about."""
        ...

    def retention(self, root: Path) -> timedelta | None:
        """How long it keeps sessions, by the settings in its folder; None when it deletes none."""
        ...

    def is_log(self, path: Path) -> bool:
        """Whether a change of a file in the agent's folder matters."""
        ...
