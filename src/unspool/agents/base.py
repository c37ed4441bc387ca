"""The interface of an agent: its row in the table of agents, a way to find its sessions, and a way to read one."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from ..core import model as m
from ..core.builder import SessionBuilder
from ..core.decision_rules import RuleText
from ..core.notebook_cells import SUFFIX, NotebookCell, cells_in
from ..core.rules import Rules
from ..io.faults import GONE
from ..io.files import name_of
from ..io.listing import walk_entries, walk_files
from ..io.sources import FileStamp, LogSource, Stamp, file_source
from ._repair import RepairStrategy

_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_COLOUR = re.compile(r"#[0-9a-f]{6}")


class Colour(NamedTuple):
    """An agent's colour on light and on dark pages, each as `#rrggbb`."""

    light: str = "#66727f"
    dark: str = "#9aa5b1"


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table of agents. Everything that names, shows, finds or runs an agent derives from it."""

    name: str
    """Identifies the agent in filters, URLs, the store and the JSON record: lower-case letters, digits, `-`."""
    title: str
    provider: str = ""
    """The provider of its models, as named by OpenTelemetry; empty if unknown."""
    letter: str
    """One character that identifies the agent where space is short."""
    colour: Colour = Colour()
    folder: str
    """The folder inside a home directory where the agent keeps its data."""
    variable: str = ""
    """Environment variable that overrides the location of the folder; empty when there is none."""
    variable_is_home: bool = False
    """The variable names the home directory that contains the folder, not the folder itself."""
    paths: tuple[str, ...]
    """Files and subfolders with sessions, or with data that is needed to read them. The first has most sessions."""
    suffixes: tuple[str, ...] = (".jsonl",)
    """Suffixes of session files; a file with another suffix is never a session."""
    resume: tuple[str, ...] = ()
    """Command that resumes a session, with `{id}` for its id; empty when the agent has none."""
    install: str | None = None
    """Command that installs the agent's program."""
    source: Callable[[Path], SessionSource]
    """Opens the agent's folder for finding and reading sessions; nothing is read yet."""
    repair: Callable[[], RepairStrategy] | None = None
    """Returns the strategy for repairing damaged logs; None if they cannot be repaired."""
    instructions: str = "AGENTS.md"
    """Name of the file in a project that has instructions for the model."""
    driver: str | None = None
    """`module:name` of the `DriverFactory` that runs the agent, imported when agents are run; None if it has none."""

    def __post_init__(self) -> None:
        """Reject values that would not work in a URL, a style sheet or a query."""
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"agent name {self.name!r} must be lower-case letters, digits and '-'")
        if len(self.letter) != 1:
            raise ValueError(f"letter of agent {self.name!r} must be one character, not {self.letter!r}")
        for colour in self.colour:
            if not _COLOUR.fullmatch(colour):
                raise ValueError(f"colour of agent {self.name!r} must look like #0d6b52, not {colour!r}")


class SessionRef(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was found but not yet read."""

    agent: str
    id: str
    kind: m.Kind
    root: Path
    """The agent's folder in which it was found."""
    path: Path
    """Its log, or the first one if there are several."""
    more: tuple[Path, ...] = ()
    """Further logs of the same session, in reading order."""
    parent: str | None = None
    """The session that started it, if it is a sub-agent."""
    is_inside: bool = False
    """A sub-agent that is recorded in the log of the session that started it."""
    archived: bool = False
    gone: bool = False
    """Its files were deleted; only a store still has it."""
    stored: bool = False
    """It is read from a store: its files were deleted, cannot be read now, or are not in the listed folders."""


class Peek(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a session without reading all of its log."""

    title: str | None = None
    project: m.Project | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    version: str | None = None
    size: int = 0

    @classmethod
    def of(cls, info: m.SessionInfo, size: int) -> Peek:
        """Return the same facts about a session that was read completely."""
        return cls(
            title=info.title,
            project=info.project,
            started_at=info.started_at,
            ended_at=info.ended_at,
            version=info.versions[-1] if info.versions else None,
            size=size,
        )


class McpConnection(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent reaches an MCP server: by a command that it starts, or at a URL."""

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    token_variable: str = ""
    """The environment variable that has the token for the URL."""


class ToolCaller(msgspec.Struct, frozen=True, kw_only=True):
    """What an MCP server knows about the program that calls one of its tools."""

    meta: Mapping[str, Any]
    """The `_meta` of the call."""
    environment: Mapping[str, str] = {}
    """The environment of a server that the agent itself has started."""
    processes: tuple[int, ...] = ()
    """The ids of the calling process and of its ancestors, if they are on this computer."""
    roots: tuple[Path, ...] = ()
    """The folders of the agent."""


Steps = Generator[None, None, list[SessionBuilder]]
"""Reading one block of the log at a time; the return value is the list of builders."""

BuilderFactory = Callable[[str, m.Kind], SessionBuilder | None]
"""Returns the builder for a session id, or None when that session is not wanted."""


def strings_at(record: object, *paths: tuple[str, ...]) -> list[str]:
    """The strings at some paths of a decoded record; missing values and other types are left out."""
    found = []
    for path in paths:
        value = record
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, str):
            found.append(value)
    return found


def formatted_json(value: object) -> str:
    """A value as indented JSON, as in a settings file."""
    return msgspec.json.format(msgspec.json.encode(value)).decode()


T = TypeVar("T")


def finish(steps: Generator[None, None, T]) -> T:
    """Run all steps and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


class SessionSource(Protocol):
    """The sessions in one agent's folder. Lookups are cached, so use it for one pass over the sessions only."""

    root: Path

    @property
    def live(self) -> dict[str, m.Status]:
        """Sessions that a running program has open, if the agent keeps a list of them."""
        ...

    def refs(self) -> Iterator[SessionRef]:
        """All sessions in the folder; files without a conversation are left out. Raises OSError."""
        ...

    def ref(self, path: Path) -> SessionRef | None:
        """The session that a file in the folder belongs to."""
        ...

    def contains(self, ref: SessionRef) -> bool:
        """Whether a session is one of `refs`, without listing them all."""
        ...

    def peek(self, ref: SessionRef) -> Peek:
        """Read only the beginning of a session."""
        ...

    def read(self, ref: SessionRef, make: BuilderFactory) -> Steps:
        """Read a session and the sub-agents that are recorded in the same log."""
        ...

    def has_inline_subagents(self, ref: SessionRef) -> bool:
        """Whether the session's own logs may contain sub-agents."""
        ...

    def fingerprint(self, ref: SessionRef) -> str:
        """A digest of everything outside its own logs that affects a session, which is read again when this changes."""
        ...


class Agent:
    """A coding agent whose sessions can be read: its row in the table, and the decisions that need code.

    A subclass sets `info` and overrides `recognises`. The other methods have defaults that suit an agent which keeps
    its sessions as files below one folder.
    """

    info: AgentInfo
    rules: Rules = {}
    """Explanations of the evidence in its records."""

    def open(self, root: Path) -> SessionSource:
        """The sessions in one folder."""
        return self.info.source(root)

    def recognises(self, path: Path, head: bytes) -> bool:  # noqa: ARG002 - subclasses look at both
        """Whether a file, found anywhere, is one of this agent's logs; `head` is its beginning."""
        return False

    def root_of(self, path: Path) -> Path:
        """The agent's folder that contains a log, or the log's own folder when it is somewhere else."""
        return next((parent for parent in path.parents if parent.name == self.info.folder), path.parent)

    def has_layout(self, folder: Path) -> bool:  # noqa: ARG002 - subclasses look
        """Whether a folder with another name is laid out like this agent's."""
        return False

    def describe(self, name: str, raw_input: msgspec.Raw) -> m.Action:  # noqa: ARG002 - subclasses know the tools
        """What a call of one of its tools does."""
        return m.Action(raw_input)

    def subject(self, name: str, raw_input: msgspec.Raw) -> tuple[str | None, str | None]:
        """The command and the path of a call, if any; subclasses may find them faster than `describe` does."""
        action = self.describe(name, raw_input)
        return action.command, action.path

    def answers(self, action: m.Action, result: m.ToolResult) -> dict[str, str]:  # noqa: ARG002 - subclasses know
        """A person's answers to the questions of a call, by question; empty if the result has another form."""
        return {}

    def markdown_of(self, name: str, result: m.ToolResult) -> str | None:  # noqa: ARG002 - subclasses know the tools
        """A result as Markdown, if it is meant to be read: the report of a sub-agent, a web page, search results."""
        return None

    def cells_written(self, name: str, raw_input: msgspec.Raw) -> list[NotebookCell]:  # noqa: ARG002 - as above
        """The cells of a notebook that a call of one of its tools writes or changes."""
        return []

    def cells_read(
        self,
        name: str,  # noqa: ARG002 - subclasses know the tools
        raw_input: msgspec.Raw,
        result: m.ToolResult,
    ) -> list[NotebookCell]:
        """The cells of a notebook that is the result of a call."""
        return cells_in(result.whole) if SUFFIX.encode() in bytes(raw_input) else []

    def touched(self, name: str, raw_input: msgspec.Raw) -> list[str]:  # noqa: ARG002 - subclasses know the tools
        """The files that a call of one of its tools concerns."""
        return []

    def allow_command(self, prefix: tuple[str, ...]) -> RuleText | None:  # noqa: ARG002 - subclasses know their rules
        """The rule that allows all commands with these first words; None if there is no such rule."""
        return None

    def allow_tool(self, tool: str) -> RuleText | None:  # noqa: ARG002 - subclasses know their rules
        """The rule that allows all calls of a tool; None if there is no such rule."""
        return None

    def mcp_settings(self, connection: McpConnection) -> RuleText | None:  # noqa: ARG002 - subclasses know theirs
        """The settings that connect the agent to an MCP server; None if it has none."""
        return None

    def calling_session(self, caller: ToolCaller) -> str | None:  # noqa: ARG002 - subclasses know what they send
        """The id of this agent's session that calls a tool of an MCP server; None if it is none, or unknown."""
        return None

    def is_calling(self, caller: ToolCaller) -> bool:
        """Whether this agent calls a tool of an MCP server, even if it is unknown which of its sessions does."""
        return self.calling_session(caller) is not None

    def record_kind(self, record: dict[str, Any]) -> list[str]:
        """The kind of a decoded record, in the agent's own terms: the most general one first."""
        return strings_at(record, ("type",))

    def retention(self, root: Path) -> timedelta | None:  # noqa: ARG002 - subclasses read their settings
        """How long the agent keeps sessions, according to the settings in its folder; None when it deletes none."""
        return None

    def is_log(self, path: Path) -> bool:
        """Whether a change of a file in the agent's folder matters."""
        return path.name.endswith(self.info.suffixes)

    def logs(self, root: Path) -> Iterator[LogSource]:
        """Everything in the agent's folder that is archived: sessions, and the data that is needed to read them.

        An agent that keeps its sessions in a database yields one source per session. Raises OSError if the folder
        cannot be read. A folder inside it that cannot be listed is passed to `report_fault`.
        """
        for subpath in self.info.paths:
            path = root / subpath
            if path.is_dir():
                yield from (self.log(file) for file in walk_files(path) if self.is_log(file))
            else:
                yield self.log(path)

    @property
    def log_suffixes(self) -> tuple[str, ...]:
        """Suffixes of files that are always logs, so that `is_log` need not be called for them."""
        return self.info.suffixes if type(self).is_log is Agent.is_log else ()

    def stamps(self, root: Path) -> Iterator[FileStamp]:
        """The path of each of the `logs` as text, and its `Stamp`. Raises OSError."""
        if type(self).logs is not Agent.logs:
            found = ((log.path, log.stamp()) for log in self.logs(root))
            yield from ((name_of(path), *stamp) for path, stamp in found if stamp is not None)
            return
        certain = self.log_suffixes
        for subpath in self.info.paths:
            path = root / subpath
            if path.is_dir():
                # There may be very many, so no `Path` is created unless it is needed.
                for entry in walk_entries(path):
                    name = entry.path
                    if entry.name.endswith(certain) or self.is_log(Path(name)):
                        try:
                            facts = entry.stat()
                        except GONE:
                            continue
                        yield (name if name.isascii() else name_of(name), *Stamp.of(facts))
            elif (stamp := self.log(path).stamp()) is not None:
                yield (name_of(path), *stamp)

    def without_conversation(self, root: Path) -> Iterator[Path]:  # noqa: ARG002 - subclasses look
        """The session files in the agent's folder without a conversation, which lists leave out."""
        return iter(())

    def shared_with(self, ref: SessionRef) -> Iterator[str | None]:  # noqa: ARG002 - subclasses know their files
        """Names of what a session shares with others, such as sessions it was copied from and its first messages.

        Sessions with a name in common are read together when many are read. The caller adds the id of the session and
        that of its parent.
        """
        return iter(())

    def shapes_lists(self, path: Path) -> bool:  # noqa: ARG002 - subclasses know their files
        """Whether a change to a log that contains no session may change the titles or projects of sessions."""
        return True

    def log(self, path: Path) -> LogSource:
        """The source of the bytes of one log, by its path in `SessionRef` and in the store."""
        return file_source(path)
