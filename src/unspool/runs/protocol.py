"""What every driver of an agent offers, and what it tells: the same words for all agents.

A driver knows one agent's protocol and one running program. It decides nothing: what is asked goes to the supervisor,
and what the supervisor decides goes to the program.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from ..agents import AGENTS
from ..core import model as m

AskedKind = Literal["command", "edit", "tool", "plan", "question", "permission"]
Verdict = Literal["allow", "allow_session", "deny", "deny_stop"]
TurnOutcome = Literal["completed", "interrupted", "failed"]
ForkReach = Literal["message", "turn", "end", "none"]


class Capabilities(msgspec.Struct, kw_only=True, frozen=True):
    """What an agent can do; a page offers nothing else."""

    resume: bool = True
    fork: ForkReach = "none"
    """From where a conversation can be forked: any message, the end of any turn, only its end, or not at all."""
    steer: bool = False
    """A message that is sent while a turn runs reaches that turn; else it waits for its end."""
    deny_reason: bool = False
    """The words of a refusal reach the model."""
    edit_input: bool = False
    """What a tool is called with can be changed before it is allowed."""
    allow_session: bool = False
    modes: tuple[str, ...] = ()
    models: bool = False
    """The model can be changed while it runs."""


class RunSpec(msgspec.Struct, kw_only=True, frozen=True):
    """What is to be started."""

    folder: str
    """The project."""
    session: str | None = None
    """A past session to go on with, or to fork from."""
    fork: bool = False
    at: str | None = None
    """Fork after this message, or turn, by the agent's own id; at the end where it is not named."""
    mode: str | None = None
    model: str | None = None
    home: str | None = None
    """The home directory the agent works with; the user's own where none is named."""
    mark: str | None = None
    """By this everything that the agent starts is recognised, also when the agent itself has gone."""


def folder_of(agent: str, spec: RunSpec) -> Path:
    """Where the agent keeps its settings and sessions."""
    info = AGENTS[agent].info
    if spec.home is not None:
        return Path(spec.home) / info.folder
    named = os.environ.get(info.variable)
    return Path(named) if named else Path.home() / info.folder


# --- what a driver tells ---------------------------------------------------------------------------------------------


class Started(msgspec.Struct, tag="began"):
    """The program runs."""

    session: str | None
    """The agent's id of the session, once it is known: a new one may get it only with its first turn."""
    pid: int | None
    mode: str | None = None
    model: str | None = None
    version: str | None = None


class TurnStarted(msgspec.Struct, tag="turn_began"):
    """The model is at work."""


class TextDelta(msgspec.Struct, tag="words"):
    """Words of the model as they come; the log has them later."""

    text: str
    thinking: bool = False
    subagent: str | None = None


class MessageAccepted(msgspec.Struct, tag="took_up"):
    """A message that was sent has reached the model, or is about to."""

    message: str
    """The id it was sent with."""


class Option(msgspec.Struct):
    """One of the answers that a question offers."""

    label: str
    description: str = ""


class Choice(msgspec.Struct, kw_only=True):
    """A question of the model to the person."""

    question: str
    header: str = ""
    options: list[Option] = []
    multiple: bool = False


class PermissionRequest(msgspec.Struct, kw_only=True, tag="asked"):
    """The agent wants to do something and waits for an answer."""

    id: str
    """Of the request; never used again by the same driver."""
    kind: AskedKind
    tool: str
    title: str
    """One line that tells what it is about."""
    action: m.Action
    """The input, and the diff, command or plan it means."""
    call_id: str | None = None
    reason: str | None = None
    """Why the agent asks."""
    subagent: str | None = None
    choices: list[Choice] = []
    verdicts: tuple[Verdict, ...] = ("allow", "deny")
    """The answers that are possible here."""
    takes_reason: bool = False
    takes_input: bool = False


class RequestCancelled(msgspec.Struct, tag="withdrawn"):
    """The agent no longer waits for an answer."""

    id: str


class TurnEnded(msgspec.Struct, kw_only=True, tag="turn_ended"):
    """The model is done, or was stopped."""

    outcome: TurnOutcome
    error: str | None = None


class SettingsChanged(msgspec.Struct, kw_only=True, tag="changed"):
    """The agent works in another mode, or with another model, from now on."""

    mode: str | None = None
    model: str | None = None


class Notice(msgspec.Struct, tag="remarked"):
    """Something to be shown that changes nothing."""

    text: str


class AgentExited(msgspec.Struct, kw_only=True, tag="exited"):
    """The program has ended."""

    code: int | None
    error: str | None = None
    """What it said last, where it did not end by itself."""


DriverEvent = (
    Started
    | TurnStarted
    | TextDelta
    | MessageAccepted
    | PermissionRequest
    | RequestCancelled
    | TurnEnded
    | SettingsChanged
    | Notice
    | AgentExited
)


class Decision(msgspec.Struct, kw_only=True, frozen=True):
    """What was decided about something that was asked."""

    verdict: Verdict
    reason: str | None = None
    input: dict[str, Any] | None = None
    """The input to be used instead."""
    answers: dict[str, list[str]] = {}
    """Of questions: what was chosen or written, by the question."""


# --- the driver ------------------------------------------------------------------------------------------------------


class Driver(Protocol):
    """One running agent. All methods belong to one event loop; `tell` is called on it."""

    capabilities: Capabilities

    async def start(self, spec: RunSpec, tell: Callable[[DriverEvent], None]) -> None:
        """Start the program; returns when it can take messages. Raises UnspoolError with a sentence when it cannot."""
        ...

    async def send(self, id: str, text: str) -> None:
        """Give it a message: at once where the agent can be steered, else for its next turn."""
        ...

    async def interrupt(self) -> None:
        """Stop the turn that runs; does nothing when there is none."""
        ...

    async def answer(self, asked: PermissionRequest, decision: Decision) -> None:
        """Answer something that it asked; one that was withdrawn meanwhile is passed over."""
        ...

    async def set_mode(self, mode: str) -> None:
        """Change how much it may do by itself."""
        ...

    async def set_model(self, model: str) -> None:
        """Change the model."""
        ...

    async def stop(self) -> None:
        """End the program and everything it started: politely first, and for sure. `Exited` is told in any case."""
        ...


class Kind(Protocol):
    """A kind of agent that can be run."""

    name: str
    capabilities: Capabilities
    extra: str
    """The optional packages it needs: `unspool[claude]`."""

    def program(self) -> str:
        """Where the agent's program is; NotFoundError with what to install where it is missing."""
        ...

    def make(self) -> Driver:
        """A driver for one session."""
        ...


KEPT_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "TMPDIR", "SSH_AUTH_SOCK",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
    "SYSTEMROOT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "COMSPEC", "PATHEXT",
)  # fmt: skip
"""What a child may know of our environment, apart from its own agent's variables."""


def environment_for(own: tuple[str, ...], environ: Mapping[str, str], home: str | None = None) -> dict[str, str]:
    """The least a child needs: `own` are beginnings of the names of its agent's variables."""
    kept = {name: value for name, value in environ.items() if name in KEPT_VARIABLES or name.startswith(own)}
    if home is not None:
        kept["HOME"] = home
    return kept
