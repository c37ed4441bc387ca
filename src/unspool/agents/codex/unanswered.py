"""Calls of a Codex thread that asked for approval and never got a result."""

from __future__ import annotations

from typing import NamedTuple

from ...core import model as m
from ...core.builder import SessionBuilder
from .tool_calls import CodexToolCalls
from .tools import is_escalated
from .turn import CodexTurn

_ALWAYS_ANSWERS_FROM = (0, 72)
"""From this version on, a rejected call always has a result; only a call whose process ended has none."""


class _Request(NamedTuple):
    call_id: str
    message: int
    reply: int
    """The number of the response that contains the call."""


class UnansweredRequests:
    """Finds rejections that left no result: the call asked for approval, and the session continued without it.

    If the model continues in the same turn, the process was alive, so a person or a rule rejected the call. If a
    prompt comes first, the process may have ended while it waited; in recent versions, that is the only explanation.
    """

    def __init__(
        self, builder: SessionBuilder, turn: CodexTurn, calls: CodexToolCalls, version: tuple[int, ...]
    ) -> None:
        self._builder = builder
        self._turn = turn
        self._calls = calls
        self._may_end_turn = not version or version < _ALWAYS_ANSWERS_FROM
        self._waiting: list[_Request] = []
        self._continued: list[_Request] = []
        """Requests after which the model or a person continued."""

    def called(self, call: m.ToolCall, message: int) -> None:
        """Remember a call of a message that asks for approval."""
        raw = bytes(call.raw_input)
        if self._calls.can_ask and b"escalated" in raw and is_escalated(raw):
            self._waiting.append(_Request(call.id, message, self._turn.reply_number))

    def prompted(self) -> None:
        """Note a prompt, which ends the turn of the waiting requests."""
        for request in self._waiting:
            if self._may_end_turn or self._turn.reply_number > request.reply:
                self._continued.append(request)
        self._waiting = []

    def aborted(self) -> None:
        """Note an abort, which explains why the waiting requests have no result."""
        self._waiting = []

    def finish(self) -> None:
        """Report the requests without a result after which the session continued."""
        self._may_end_turn = False
        self.prompted()
        if not self._continued:
            return
        unanswered = {(call_id, call.message): call for call_id, call in self._builder.calls.unanswered()}
        for request in self._continued:
            call = unanswered.get((request.call_id, request.message))
            if call is not None and self._turn.reply_number > request.reply:
                self._calls.reject_unanswered(request.call_id, call)
                orphan = m.Orphan(
                    message_index=call.message, tool_use_id=request.call_id, tool_name=call.name, reason="unknown"
                )
                self._builder.events.orphans.append(orphan)
