"""Translates the messages of Claude Code into the events that all drivers share."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..protocol import Emit, MessageAccepted, Notice, Started, TextDelta, TurnEnded, TurnStarted
from .settings import ReportedSettings
from .turn_state import TurnAction, TurnState

if TYPE_CHECKING:
    from claude_agent_sdk import AssistantMessage, Message, ResultMessage, StreamEvent

_NOT_LOGGED_IN = re.compile(r"Please run /login|^Failed to authenticate|^Invalid API key")
"""The wording of the program, as of 2.1.325."""


class SentMessages:
    """Messages that were sent and have not reached the model yet, by the ids that Claude Code uses."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._waiting: dict[str, str] = {}
        self._at_turn_start: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, id: str) -> str:
        """Add a message that is about to be sent; return its id for Claude Code."""
        own_id = str(uuid.uuid4())
        self._waiting[own_id] = id
        return own_id

    def remove(self, own_id: str) -> None:
        """Remove a message that could not be sent."""
        self._waiting.pop(own_id, None)

    def take_all(self) -> list[str]:
        """Remove all messages; return their ids for Claude Code."""
        own_ids = list(self._waiting)
        self._waiting.clear()
        return own_ids

    def accept(self, own_id: str | None) -> None:
        """Report a message as accepted. Claude Code echoes a message once the model gets it."""
        id = self._waiting.pop(own_id or "", None)
        if id is not None:
            self._emit(MessageAccepted(id))

    def turn_started(self) -> None:
        """Remember which messages belong to the turn that is starting."""
        self._at_turn_start = set(self._waiting)

    def turn_ended(self) -> None:
        """Accept the messages of this turn that were not echoed. Some built-in commands never are."""
        for own_id in self._at_turn_start:
            self.accept(own_id)


class ClaudeConversation:
    """The session of one running Claude Code."""

    def __init__(self, emit: Emit, on_turn_start: Callable[[], None]) -> None:
        self.turn = TurnState()
        self.messages = SentMessages(emit)
        self.settings = ReportedSettings(emit)
        self.settings.is_reporting = True
        self.session: str | None = None
        self.version: str | None = None
        self.pid: int | None = None
        self.requested_model: str | None = None
        self._emit = emit
        self._on_turn_start = on_turn_start
        self._subagents: dict[str, str] = {}
        """Sub-agents by the tool calls that started them."""

    def report_started(self) -> None:
        """Emit `Started` with the current details of the session."""
        model = self.settings.model or self.requested_model
        self._emit(Started(self.session, self.pid, self.settings.mode, model, self.version))

    def handle(self, message: Message) -> None:
        """Handle one message of the SDK."""
        from claude_agent_sdk import AssistantMessage, ResultMessage, StreamEvent, SystemMessage, UserMessage

        if isinstance(message, StreamEvent):
            self._handle_stream_event(message)
        elif isinstance(message, SystemMessage):
            self._handle_system_message(message.subtype, message.data)
        elif isinstance(message, UserMessage):
            self.messages.accept(message.uuid)
        elif isinstance(message, AssistantMessage):
            self._handle_assistant_message(message)
        elif isinstance(message, ResultMessage):
            self._handle_result(message)

    def _handle_stream_event(self, event: StreamEvent) -> None:
        if event.event.get("type") != "content_block_delta":
            return
        delta = event.event.get("delta") or {}
        text = delta.get("text") or delta.get("thinking")
        if isinstance(text, str):
            is_thinking = delta.get("type") == "thinking_delta"
            self._emit(TextDelta(text, is_thinking, self._subagent_of(event.parent_tool_use_id)))

    def _handle_system_message(self, subtype: str, data: dict[str, Any]) -> None:
        if subtype == "init":
            self._handle_turn_start(data)
        elif subtype == "task_started" and data.get("tool_use_id"):
            self._subagents[data["tool_use_id"]] = str(data.get("task_id"))
        elif subtype == "status" and text_or_none(data.get("permissionMode")):
            self.settings.update(mode=data["permissionMode"])
        elif subtype == "api_retry":
            self._emit(Notice(f"The model cannot be reached ({data.get('error')}). Retrying."))

    def _handle_turn_start(self, data: dict[str, Any]) -> None:
        self._on_turn_start()
        self.messages.turn_started()
        self.version = text_or_none(data.get("claude_code_version")) or self.version
        session = text_or_none(data.get("session_id"))
        if session and session != self.session:
            self.session = session
            self.report_started()
        self.settings.update(text_or_none(data.get("permissionMode")), text_or_none(data.get("model")))
        if TurnAction.REPORT_START in self.turn.apply("started"):
            self._emit(TurnStarted())

    def _handle_assistant_message(self, message: AssistantMessage) -> None:
        """Emit the text of sub-agents, which arrives only in whole messages; other text arrives in stream events."""
        subagent = self._subagent_of(message.parent_tool_use_id)
        if subagent is None:
            return
        for block in message.content:
            text = getattr(block, "text", None)
            if isinstance(text, str):
                self._emit(TextDelta(text, False, subagent))

    def _handle_result(self, result: ResultMessage) -> None:
        was_interrupting = self.turn.is_interrupting
        self.messages.turn_ended()
        if TurnAction.REPORT_END in self.turn.apply("ended_with_more" if self.messages else "ended"):
            self._emit(_outcome_of(result, was_interrupting))

    def _subagent_of(self, call: str | None) -> str | None:
        return self._subagents.get(call, call) if call else None


def _outcome_of(result: ResultMessage, was_interrupting: bool) -> TurnEnded:
    reason = result.terminal_reason or ""
    is_cut_off = result.subtype == "error_during_execution" and was_interrupting
    if reason.startswith("aborted") or is_cut_off:
        return TurnEnded(outcome="interrupted")
    if result.is_error or result.subtype != "success":
        error = "; ".join(result.errors or []) or result.result or result.subtype
        return TurnEnded(outcome="failed", error=error, needs_login=_NOT_LOGGED_IN.search(error) is not None)
    return TurnEnded(outcome="completed")


def text_or_none(value: Any) -> str | None:
    """Return a value if it is text that is not empty."""
    return value if isinstance(value, str) and value else None
