"""The view of a run on pages and in the API."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from ..agents import agent_named
from .approvals import OpenRequest
from .completions import OfferedCommand
from .live_text import LiveText
from .messages import RunMessage
from .model_names import model_warning
from .outbox import Held
from .protocol import BackgroundProcess, Capabilities
from .state import IN_TURN, State

if TYPE_CHECKING:
    from .run import Run


class RunView(msgspec.Struct, kw_only=True):
    """A run as it is shown."""

    id: str
    agent: str
    session: str | None
    folder: str
    state: State
    reason: str | None
    since: datetime
    started_at: datetime
    mode: str | None
    model: str | None
    pid: int | None
    capabilities: Capabilities
    messages: list[RunMessage]
    """The last messages, in the order of the run."""
    held: Held | None
    """Why queued messages are not sent after a turn was interrupted or failed; null if they are."""
    questions: list[OpenRequest]
    """Requests that are waiting for an answer."""
    text: str = msgspec.field(name="words")
    """The response that the model is writing."""
    texts: list[LiveText]
    """The same with its offset, followed by the texts of sub-agents. Includes a response that was cut off."""
    processes: list[BackgroundProcess]
    """Processes that continue after the turns that started them."""
    error: str | None
    warning: str | None
    """A warning about the settings of the run."""
    is_sandboxed: bool
    """Whether unspool's own files are hidden from the agent."""


class RunDetails(msgspec.Struct, kw_only=True):
    """Details of a run that change while it is running, most of them reported by the agent."""

    session: str | None
    mode: str | None
    model: str | None
    chosen_model: str | None = None
    """The model that a person has chosen; None for the agent's own choice."""
    pid: int | None = None
    error: str | None = None
    commands: list[OfferedCommand] = []
    """The commands that it understands in messages."""
    started_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    processes: list[BackgroundProcess] = []
    is_interrupting: bool = False
    """The turn is being interrupted and has not ended yet."""
    server_ends: bool = False
    """The agent is being stopped because the server is shutting down."""
    former_sessions: dict[str, float] = {}
    """Sessions that the agent has left for another one, for example after `/clear`, and when."""


def view_of(run: Run) -> RunView:
    """Return the current view of a run."""
    machine, details, main = run.machine, run.details, run.texts.main
    age = time.monotonic() - machine.since
    return RunView(
        id=run.id,
        agent=run.agent,
        session=details.session,
        folder=run.spec.folder,
        state=machine.state,
        reason=machine.reason,
        since=datetime.fromtimestamp(time.time() - age, UTC),
        started_at=details.started_at,
        mode=details.mode,
        model=details.model,
        pid=details.pid,
        capabilities=run.driver.capabilities,
        messages=run.messages.latest(),
        held=run.outbox.held,
        questions=run.approvals.open(),
        text=main.text if main is not None and machine.state in IN_TURN else "",
        texts=run.texts.written(),
        processes=details.processes,
        error=details.error,
        warning=model_warning(
            agent_named(run.agent).info.title, details.chosen_model, run.driver.capabilities.model_names
        ),
        is_sandboxed=bool(run.spec.hidden),
    )
