"""What can be done to agents through the API: what is sent, what comes back, and how that is described."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from ...runs.messages import RunMessage
from ...runs.protocol import Capabilities
from ...runs.run import RunView


class StartBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is to be started."""

    agent: str | None = None
    """Of a new session; a past one knows its own."""
    folder: str | None = None
    session: str | None = None
    """Key of a past session to go on with."""
    at: int | None = None
    """Fork after this message instead."""
    fork: bool = False
    mode: str | None = None
    model: str | None = None
    prompt: str | None = None
    message_id: str | None = None
    who: str = "someone"
    take_over: bool = False


class SendBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A message to the agent."""

    id: str
    """Chosen by whoever sends it: sent twice, it counts once."""
    text: str
    who: str = "someone"


class AnswerBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An answer to what the agent asked."""

    digest: str
    verdict: Literal["allow", "allow_session", "deny", "deny_stop"]
    reason: str | None = None
    input: dict[str, Any] | None = None
    answers: dict[str, list[str]] = {}
    who: str = "someone"


class WhoBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Who does it."""

    who: str = "someone"


class ChangeBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Another mode or model."""

    mode: str | None = None
    model: str | None = None


class AgentKind(msgspec.Struct, kw_only=True):
    """An agent that can be run, or why not."""

    name: str
    title: str
    capabilities: Capabilities
    program: str | None
    missing: str | None


class Started(msgspec.Struct, kw_only=True):
    """An agent that runs now, and what is to be known of how it began."""

    run: RunView
    remark: str | None = None


class RunList(msgspec.Struct, kw_only=True):
    """All agents, and the number from which to go on listening."""

    runs: list[RunView]
    seq: int


RunEventKind = Literal[
    "run.started", "session", "state", "sent", "taken_up", "words", "asked", "answered", "withdrawn", "interrupting",
    "changed", "remarked", "turn_ended", "resync",
]  # fmt: skip


class RunEvent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something that happened to an agent; what else it has depends on its kind."""

    seq: int | None
    """Its number in the run log; live text has none."""
    run: str | None
    kind: RunEventKind


class Act(NamedTuple):
    """An address that is not about the past: what it takes and gives."""

    method: Literal["get", "post"]
    path: str
    name: str
    summary: str
    answer: Any
    body: type[msgspec.Struct] | None = None
    status: int = 200


ACTS = (
    Act("get", "/agents", "agents", "The agents that can be run here, and what is missing for the others.",
        list[AgentKind]),
    Act("get", "/runs", "runs", "All agents that run or ran, those that need a person first.", RunList),
    Act("get", "/runs/{id}", "run", "One of them.", RunView),
    Act("post", "/runs", "start", "Start an agent: in a folder, or on a past session, or forked from a message of it.",
        Started, StartBody, 201),
    Act("post", "/runs/{id}/messages", "send", "Say something to it.", RunMessage, SendBody, 201),
    Act("post", "/runs/{id}/answers/{question}", "answer", "Answer what it asked: the first answer counts.",
        RunView, AnswerBody),
    Act("post", "/runs/{id}/interrupt", "interrupt", "Stop the turn that runs.", RunView, WhoBody),
    Act("post", "/runs/{id}/stop", "stop", "End it.", RunView, WhoBody),
    Act("post", "/runs/{id}/change", "change", "Change its mode or its model.", RunView, ChangeBody),
)  # fmt: skip
