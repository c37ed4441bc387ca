"""Permission requests of agents that use the Agent Client Protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from ..protocol import Emit, PermissionRequest, Verdict
from .pending_requests import PendingRequests
from .request_details import ALL_VERDICTS


class PermissionOption(msgspec.Struct, rename="camel"):
    """One of the answers that an agent accepts."""

    option_id: str
    kind: str = ""
    name: str = ""


class AcpToolCall(msgspec.Struct, rename="camel"):
    """A tool call as an agent describes it."""

    tool_call_id: str = ""
    title: str | None = None
    kind: str | None = None
    content: list[dict[str, Any]] | None = None
    locations: list[dict[str, Any]] | None = None
    raw_input: dict[str, Any] | None = None


class PermissionParams(msgspec.Struct, rename="camel"):
    """The parameters of `session/request_permission`."""

    tool_call: AcpToolCall
    options: list[PermissionOption] = []


class PendingPermission(NamedTuple):
    """A permission request that is waiting for an answer."""

    options: list[PermissionOption]
    chosen: asyncio.Future[str | None]
    """The id of the chosen option; None when the turn is stopped."""


SessionOption = Callable[[Sequence[PermissionOption]], PermissionOption | None]
"""Finds the option that allows a call until the session ends, and no longer."""


class AcpPermissions:
    """The permission requests of one agent."""

    def __init__(self, emit: Emit, session_option: SessionOption) -> None:
        self._session_option = session_option
        self._pending = PendingRequests[PendingPermission]("request", emit)

    def new_id(self) -> str:
        """Return an id for the next request."""
        return self._pending.new_id()

    async def ask(self, request: PermissionRequest, options: list[PermissionOption]) -> dict[str, Any]:
        """Show a request and wait for its answer; return the result in the form of the protocol."""
        request.verdicts = tuple(
            each for each in ALL_VERDICTS if each.startswith("deny") or self.option_for(each, options) is not None
        )
        if "allow_session" in request.verdicts and (lasting := self._session_option(options)) is not None:
            request.session_rule = f"The agent's own option: {lasting.name or lasting.option_id} ({lasting.option_id})."
        pending = PendingPermission(options, asyncio.get_running_loop().create_future())
        self._pending.add(request.id, pending)
        self._pending.show(request)
        return outcome_of(await pending.chosen)

    def get(self, id: str) -> PendingPermission | None:
        """Return a request that is still waiting for an answer."""
        pending = self._pending.get(id)
        return None if pending is None or pending.chosen.done() else pending

    def remove(self, id: str) -> None:
        """Remove a request that is being answered."""
        self._pending.take(id)

    def cancel_all(self) -> None:
        """Cancel all requests. The protocol requires a response to each of them."""
        for pending in self._pending.cancel_where():
            if not pending.chosen.done():
                pending.chosen.set_result(None)

    def option_for(self, verdict: Verdict, options: Sequence[PermissionOption]) -> PermissionOption | None:
        """Return the agent's option for a verdict."""
        if verdict == "allow_session":
            return self._session_option(options)
        kind = "allow_once" if verdict == "allow" else "reject_once"
        return next((option for option in options if option.kind == kind), None)


def outcome_of(option: str | None) -> dict[str, Any]:
    """Return the result of a permission request; None cancels it."""
    chosen = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
    return {"outcome": chosen}


def answers_as_text(answers: dict[str, list[str]]) -> str:
    """Return the answers to questions as a message to the model."""
    return "\n".join(f"{question} {', '.join(chosen)}" for question, chosen in answers.items())
