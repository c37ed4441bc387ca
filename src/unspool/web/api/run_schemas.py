"""Requests and responses of the API for running agents, and their published description."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from ...runs.attachments import Attachment
from ...runs.completions import Completion
from ...runs.messages import RunMessage
from ...runs.outbox import QueueAction
from ...runs.protocol import Capabilities
from ...runs.run_view import RunView
from ...runs.worktrees import FolderState


class StartBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a new run."""

    agent: str | None = None
    """For a new session; a past session already has an agent."""
    folder: str | None = None
    session: str | None = None
    """Key of a past session to resume."""
    at: int | None = None
    """Fork after this message instead of resuming."""
    fork: bool = False
    worktree: bool = False
    """Create a git worktree of the folder, and start there."""
    mode: str | None = None
    model: str | None = None
    sandbox: bool = False
    """Hide unspool's own data from the agent. Needs bubblewrap."""
    prompt: str | None = None
    message_id: str | None = None
    attachments: list[Attachment] = []
    """The attachments of the prompt."""
    who: str = "someone"
    take_over: bool = False


class SendBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A message to the agent."""

    id: str
    """Chosen by the sender: a message that is sent twice with the same id counts once."""
    text: str
    attachments: list[Attachment] = []
    """Images for the model, and text files, which become part of the text."""
    who: str = "someone"


class EditBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A change to a message that has not been sent to the agent yet."""

    text: str | None = None
    position: int | None = None
    """Its new position among the queued messages, from 0."""
    remove: bool = False
    who: str = "someone"


class QueueBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to do with the messages that are queued after an interruption."""

    action: QueueAction
    who: str = "someone"


class AnswerBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The answer to an approval request."""

    digest: str
    verdict: Literal["allow", "allow_session", "deny", "deny_stop"]
    reason: str | None = None
    input: dict[str, Any] | None = None
    answers: dict[str, list[str]] = {}
    notes: dict[str, str] = {}
    who: str = "someone"


class WhoBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The sender of a request."""

    who: str = "someone"


class ChangeBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A new mode or model."""

    mode: str | None = None
    model: str | None = None


class RevertBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A file to revert, and the copy to revert it to."""

    session: str
    path: str
    copy: str
    """The digest of the copy, or `absent` to remove a file that did not exist before."""
    seen: str
    """The digest of the content to be replaced, as the user saw it; `absent` if there was no file."""
    who: str = "someone"


class Reverted(msgspec.Struct, kw_only=True):
    """A reverted file."""

    path: str
    replaced: str
    """The digest of the content that was replaced; a copy of it is stored."""


class PushKey(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The key with which a browser subscribes to notifications, or the reason why there is none."""

    key: str | None = None
    reason: str | None = None


class EndpointBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A subscription of a browser, by its address at the push service."""

    endpoint: str


class SubscriptionBody(EndpointBody, kw_only=True, forbid_unknown_fields=True):
    """A subscription of a browser."""

    p256dh: str
    auth: str
    who: str = "someone"


class PhoneLink(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The link that opens the app on another device."""

    link: str
    image: str | None = None
    """Its QR code, as a `data:` address."""
    reason: str | None = None
    """Why there is no QR code."""


class AgentKind(msgspec.Struct, kw_only=True):
    """An agent that this server can run, or what is missing for it."""

    name: str
    title: str
    capabilities: Capabilities
    program: str | None
    missing: str | None


class Started(msgspec.Struct, kw_only=True):
    """A run that has started, with a remark for the user, if any."""

    run: RunView
    remark: str | None = None


class RunList(msgspec.Struct, kw_only=True):
    """All runs, and the event number to listen from."""

    runs: list[RunView]
    seq: int


RunEventKind = Literal[
    "run.started",
    "session",
    "state",
    "sent",
    "queue",
    "taken_up",
    "words",
    "asked",
    "answered",
    "withdrawn",
    "interrupting",
    "processes",
    "changed",
    "remarked",
    "turn_ended",
    "cut_off",
    "kept",
    "reverted",
    "resync",
]


class RunEvent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something that happened to a run; further fields depend on the kind."""

    seq: int | None
    """The number in the run log; text that is being streamed has none."""
    run: str | None
    kind: RunEventKind


class QueryParameter(NamedTuple):
    """A parameter in the query of an address."""

    name: str
    description: str
    is_required: bool


class RunEndpoint(NamedTuple):
    """A path of the API for running agents: what it accepts and returns."""

    method: Literal["get", "post"]
    path: str
    name: str
    summary: str
    response: Any
    body: type[msgspec.Struct] | None = None
    status: int = 200
    in_query: tuple[QueryParameter, ...] = ()


RUN_ENDPOINTS = (
    RunEndpoint(
        "get", "/agents", "agents", "The agents that this server can run, and what is missing for the others.",
        list[AgentKind],
    ),
    RunEndpoint("get", "/runs", "runs", "All runs, those with pending approvals first.", RunList),
    RunEndpoint("get", "/runs/{id}", "run", "One run.", RunView),
    RunEndpoint(
        "post", "/runs", "start", "Start an agent: in a folder, on a past session, or forked from a message of one.",
        Started, StartBody, 201,
    ),
    RunEndpoint("post", "/runs/{id}/messages", "send", "Send a message to the agent.", RunMessage, SendBody, 201),
    RunEndpoint(
        "post", "/runs/{id}/messages/{message}", "edit", "Change, move or remove a message that has not been sent yet.",
        RunView, EditBody,
    ),
    RunEndpoint(
        "post", "/runs/{id}/queue", "queue", "Send, hold or discard messages that are queued after an interruption.",
        RunView, QueueBody,
    ),
    RunEndpoint(
        "post", "/runs/{id}/answers/{question}", "answer", "Answer an approval request; the first answer counts.",
        RunView, AnswerBody,
    ),
    RunEndpoint("post", "/runs/{id}/interrupt", "interrupt", "Interrupt the current turn.", RunView, WhoBody),
    RunEndpoint(
        "post", "/runs/{id}/processes/{process}/end", "endProcess", "End a process that still runs after its turn.",
        RunView, WhoBody,
    ),
    RunEndpoint("post", "/runs/{id}/stop", "stop", "Stop the agent.", RunView, WhoBody),
    RunEndpoint("post", "/runs/{id}/change", "change", "Change the mode or the model.", RunView, ChangeBody),
    RunEndpoint(
        "get", "/runs/{id}/completions", "completions", "Completions for a `word` that starts with `/` or `@`.",
        list[Completion],
        in_query=(QueryParameter("word", "The word, with the `/` or `@` it starts with.", False),),
    ),
    RunEndpoint(
        "get", "/folder", "folder", "The runs in a folder, given as `path`, and whether a worktree is possible.",
        FolderState, in_query=(QueryParameter("path", "The path of the folder.", True),),
    ),
    RunEndpoint(
        "post", "/reverts", "revert", "Revert a file of a project to the copy from before an agent changed it.",
        Reverted, RevertBody,
    ),
    RunEndpoint("get", "/push", "push", "The key with which a browser subscribes to notifications.", PushKey),
    RunEndpoint(
        "post", "/push", "subscribe", "Subscribe a browser to notifications.",
        dict[str, str], SubscriptionBody, 201,
    ),
    RunEndpoint(
        "post", "/push/remove", "unsubscribe", "Unsubscribe a browser from notifications.",
        dict[str, str], EndpointBody, 201,
    ),
    RunEndpoint("post", "/phone", "phone", "The link that opens the app on another device.", PhoneLink, WhoBody, 201),
)  # fmt: skip
