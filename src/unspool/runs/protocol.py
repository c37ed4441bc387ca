"""The interface between the supervisor and the drivers: events, requests and answers, the same for all agents.

A driver speaks one agent's protocol to one running process. It makes no decisions: it passes requests to the
supervisor, and the supervisor's answers to the agent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from ..agents import AGENTS
from ..core import model as m
from ..core.proposed_actions import ProposedEdit
from .attachments import ImageInput
from .completions import OfferedCommand

RequestKind = Literal["command", "edit", "tool", "plan", "question", "permission"]
Verdict = Literal["allow", "allow_session", "deny", "deny_stop"]
TurnOutcome = Literal["completed", "interrupted", "failed"]
ForkReach = Literal["message", "turn", "end", "none"]


class Capabilities(msgspec.Struct, kw_only=True, frozen=True):
    """What an agent can do. The web app offers nothing else."""

    resume: bool = True
    fork: ForkReach = "none"
    """Where a session can be forked: after any message, after any turn, only at its end, or not at all."""
    steer: bool = False
    """Whether a message sent during a turn reaches that turn; otherwise it waits for the next one."""
    deny_reason: bool = False
    """Whether the reason for a denial reaches the model."""
    edit_input: bool = False
    """Whether the input of a tool can be changed before the call is allowed."""
    allow_session: bool = False
    modes: tuple[str, ...] = ()
    models: bool = False
    """Whether the model can be changed while the agent is running."""
    model_names: tuple[str, ...] = ()
    """The models that the agent offers, once it has reported them."""
    login: str = ""
    """Instructions for a person when the agent is not logged in."""
    images: bool = False
    """Whether images can be attached to messages."""


class RunSpec(msgspec.Struct, kw_only=True, frozen=True):
    """The settings with which an agent is started."""

    folder: str
    """The project directory."""
    session: str | None = None
    """A past session to resume or to fork."""
    fork: bool = False
    at: str | None = None
    """Fork after this message or turn, given by the agent's own id; None forks at the end."""
    mode: str | None = None
    model: str | None = None
    home: str | None = None
    """The home directory of the agent; None for the user's own."""
    mark: str | None = None
    """Identifies every process the agent starts, even after the agent itself has exited."""
    sandbox: bool = False
    """Hide unspool's own files from this agent. The supervisor decides which they are."""
    hidden: tuple[str, ...] = ()
    """Folders and files that the agent must not see; drivers wrap its command with `sandbox.sandboxed`."""


def agent_folder(agent: str, spec: RunSpec) -> Path:
    """Return the folder with the agent's settings and sessions."""
    info = AGENTS[agent].info
    if spec.home is not None:
        return Path(spec.home) / info.folder
    named = os.environ.get(info.variable)
    return Path(named) if named else Path.home() / info.folder


# --- events of a driver ----------------------------------------------------------------------------------------------


class Started(msgspec.Struct, tag="began"):
    """The agent is running."""

    session: str | None
    """The agent's id of the session. It may be unknown until the first turn of a new session."""
    pid: int | None
    mode: str | None = None
    model: str | None = None
    version: str | None = None


class TurnStarted(msgspec.Struct, tag="turn_began"):
    """The model is working."""


class TextDelta(msgspec.Struct, tag="words"):
    """Text of the model as it arrives; the session log has it later."""

    text: str
    thinking: bool = False
    subagent: str | None = None


class MessageAccepted(msgspec.Struct, tag="took_up"):
    """A message has reached the model, or is about to."""

    message: str
    """The id that the sender chose."""


class MessageReturned(msgspec.Struct, tag="returned"):
    """The model did not read a message that was sent during a turn, and a person decides about it."""

    message: str


class Option(msgspec.Struct):
    """One of the answers offered by a question."""

    label: str
    description: str = ""


class Choice(msgspec.Struct, kw_only=True):
    """A question that the model asks."""

    question: str
    header: str = ""
    options: list[Option] = []
    multiple: bool = False


class Detail(msgspec.Struct):
    """A field of a request that its command, change, plan or questions do not show."""

    name: str
    value: str
    """The text of the field, or its JSON."""


class FilePreview(msgspec.Struct, kw_only=True):
    """The effect of a change on a file as it is on disk."""

    path: str
    diff: str | None = None
    """From the current content to the content after the change, with line numbers; None if that is not known."""
    warnings: list[str] = []
    """Where the file differs from what the model assumed, and the consequences."""
    applies: bool = True
    """False if the change, or part of it, would fail on the current file; then the diff does not show all of it."""
    version: str = ""
    """Identifies the content of the file when the request was shown; empty if there is no such file."""


class PermissionRequest(msgspec.Struct, kw_only=True, tag="asked"):
    """The agent asks for permission and waits for an answer.

    All fields are shown, and are part of the digest that an answer has to repeat.
    """

    id: str
    """Unique among the requests of one driver."""
    kind: RequestKind
    tool: str
    title: str
    """A one-line summary."""
    action: m.Action
    """The input, and the diff, command or plan that it represents."""
    call_id: str | None = None
    reason: str | None = None
    """Why the agent asks."""
    subagent: str | None = None
    choices: list[Choice] = []
    verdicts: tuple[Verdict, ...] = ("allow", "deny")
    """The possible answers."""
    takes_reason: bool = False
    takes_input: bool = False
    details: list[Detail] = []
    """Every field of the input that is not shown otherwise."""
    session_rule: str | None = None
    """A description of what `allow_session` allows from then on."""
    edits: list[ProposedEdit] = []
    """The proposed changes of files. The supervisor replaces them with `files` before it shows the request."""
    files: list[FilePreview] = []
    """Previews of the changes on disk. They are checked again before the request is allowed."""


class RequestCancelled(msgspec.Struct, tag="withdrawn"):
    """The agent is no longer waiting for an answer."""

    id: str


class TurnEnded(msgspec.Struct, kw_only=True, tag="turn_ended"):
    """The turn is over, or was stopped."""

    outcome: TurnOutcome
    error: str | None = None
    needs_login: bool = False
    """Whether it failed because nobody is logged in to the model's provider."""


class SettingsChanged(msgspec.Struct, kw_only=True, tag="changed"):
    """The agent has switched to another mode or model."""

    mode: str | None = None
    model: str | None = None


class BackgroundProcess(msgspec.Struct, kw_only=True):
    """A process that continues after the turn that started it."""

    id: str
    """The agent's own id for it."""
    command: str
    folder: str = ""


class ProcessesChanged(msgspec.Struct, tag="processes"):
    """The list of background processes has changed."""

    processes: list[BackgroundProcess]


class Notice(msgspec.Struct, tag="remarked"):
    """A message for the person, without any other effect."""

    text: str


class CommandsOffered(msgspec.Struct, tag="commands"):
    """The commands that the agent understands in messages."""

    commands: list[OfferedCommand]


class AgentExited(msgspec.Struct, kw_only=True, tag="exited"):
    """The agent's process has exited."""

    code: int | None
    error: str | None = None
    """The end of its error output, unless it was stopped on purpose."""


DriverEvent = (
    Started
    | TurnStarted
    | TextDelta
    | MessageAccepted
    | MessageReturned
    | PermissionRequest
    | RequestCancelled
    | TurnEnded
    | SettingsChanged
    | ProcessesChanged
    | Notice
    | CommandsOffered
    | AgentExited
)


class Answer(msgspec.Struct, kw_only=True, frozen=True):
    """The answer to a request."""

    verdict: Verdict
    reason: str | None = None
    input: dict[str, Any] | None = None
    """The input to use instead of the one in the request."""
    answers: dict[str, list[str]] = {}
    """For a question: the chosen or written answers, by question."""
    notes: dict[str, str] = {}
    """For a question: comments that the person added to the answer, by question."""


Emit = Callable[[DriverEvent], None]
"""Passes an event on to the supervisor."""


# --- the driver ------------------------------------------------------------------------------------------------------


class Driver(Protocol):
    """One running agent. All methods belong to one event loop, and so do the calls of `emit`."""

    capabilities: Capabilities

    async def start(self, spec: RunSpec, emit: Emit) -> None:
        """Start the agent; return when it accepts messages. Raises UnspoolError if it cannot be started."""
        ...

    async def send(self, id: str, text: str, images: Sequence[ImageInput] = ()) -> None:
        """Send a message: for the current turn if the agent can be steered, otherwise for its next turn."""
        ...

    async def interrupt(self) -> None:
        """Stop the current turn, if any."""
        ...

    async def answer(self, request: PermissionRequest, answer: Answer) -> None:
        """Answer a request; does nothing if the request has been cancelled in the meantime."""
        ...

    async def set_mode(self, mode: str) -> None:
        """Change how much the agent may do without asking."""
        ...

    async def set_model(self, model: str) -> None:
        """Change the model."""
        ...

    async def stop(self) -> None:
        """Stop the agent and everything it started, by force if necessary. Emits `AgentExited` if it had started."""
        ...


@runtime_checkable
class EndsProcesses(Protocol):
    """A driver that can end individual background processes of its agent."""

    async def end_process(self, id: str) -> None:
        """End a process that continues after its turn."""
        ...


class DriverFactory(Protocol):
    """Creates the drivers for one agent."""

    name: str
    capabilities: Capabilities
    extra: str
    """The extra that installs its optional dependencies, as in `unspool[extra]`."""

    def find_program(self) -> str:
        """Return the path of the agent's program. If it is missing, raises UnspoolError with install instructions."""
        ...

    def create(self) -> Driver:
        """Create a driver for one session."""
        ...


KEPT_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "TMPDIR", "SSH_AUTH_SOCK",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
    "SYSTEMROOT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "COMSPEC", "PATHEXT",
)  # fmt: skip
"""Environment variables that every agent inherits, in addition to its own."""


def environment_for(own: tuple[str, ...], environ: Mapping[str, str], home: str | None = None) -> dict[str, str]:
    """Return the environment for an agent: only what it needs. `own` lists the prefixes of its own variables."""
    kept = {name: value for name, value in environ.items() if name in KEPT_VARIABLES or name.startswith(own)}
    if home is not None:
        kept["HOME"] = home
    return kept
