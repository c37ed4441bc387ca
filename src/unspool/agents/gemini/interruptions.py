"""Turns of a Gemini session that were stopped: by a person, by an error, or without a recorded reason."""

from __future__ import annotations

import re

from ...core import model as m
from ...core.builder import SessionBuilder
from .schema import GeminiMessage
from .tool_calls import BY_RESULT, GeminiToolCalls
from .turn import GeminiTurn

CANCELLED = "Request cancelled."
_API_STATUS = re.compile(r'"code":\s*(\d{3})')
_LOST_CONNECTION = re.compile(r"fetch failed|connection|network|socket|timed? ?out", re.IGNORECASE)
_LOOP = ("loop detect", "loop was detect")


class GeminiInterruptions:
    """Finds interruptions and API errors."""

    def __init__(self, builder: SessionBuilder, calls: GeminiToolCalls, turn: GeminiTurn, is_in_terminal: bool) -> None:
        self._builder = builder
        self._calls = calls
        self._turn = turn
        self._is_in_terminal = is_in_terminal
        self._erased: int | None = None
        """The prompt of a turn that the agent erased, until a reason for it is found."""

    # --- notes of the interface ---

    def closes_rejection(self) -> bool:
        """Whether a note that the turn was cancelled only closes a turn whose calls were all rejected."""
        return self._calls.take_rejection(self._turn.last_reply) and self._turn.has_reply

    def cancelled(self, message: GeminiMessage, index: int) -> None:
        """Handle the note that a turn was cancelled."""
        known = self._calls.interruption
        if known is None or known.evidence != BY_RESULT:
            self._add(message, index, "user", CANCELLED, 1.0)
            return
        # The result of a stopped call has already added the interruption.
        known.message_index, known.timestamp = index, message.timestamp
        known.evidence, known.confidence = CANCELLED, 1.0

    def read_note(self, message: GeminiMessage, index: int, text: str) -> None:
        """Handle a note that may report an error or a loop."""
        if message.type == "error":
            self._api_error(message, index, text)
        elif _reports_loop(text):
            self._add(message, index, "system", "loop detection", 0.8)

    def explain_erased(self, message: GeminiMessage, text: str) -> None:
        """Stop looking for a reason why a turn was erased if a note reports an error or a loop."""
        if self._erased is not None and (message.type == "error" or _reports_loop(text)):
            self._erased = None

    def _api_error(self, message: GeminiMessage, index: int, text: str) -> None:
        code = _API_STATUS.search(text)
        status = int(code[1]) if code else None
        self._builder.events.errors.append(
            m.Failure(
                kind="api_error",
                message_index=index,
                text=text,
                status=status,
                ended_turn=True,
                timestamp=message.timestamp,
            )
        )
        lost = status >= 500 if status is not None else bool(_LOST_CONNECTION.search(text))
        if status == 429 or (lost and self._turn.last_prompt >= 0 and self._turn.has_reply):
            self._add(message, index, "system", "API error", 0.9)

    def _add(self, message: GeminiMessage, index: int, by: m.InterruptedBy, evidence: str, confidence: float) -> None:
        interrupted = max(self._turn.last_reply, self._turn.last_prompt)
        self._calls.interruption = m.Interruption(
            message_index=index,
            interrupted_message_index=interrupted if interrupted >= 0 else None,
            type=by,
            during="response",
            timestamp=message.timestamp,
            evidence=evidence,
            confidence=confidence,
        )
        self._builder.events.interruptions.append(self._calls.interruption)

    # --- erased turns ---

    def note_erased(self, dropped: list[int]) -> None:
        """Remember that the current turn left the conversation, if no reason for it is known yet."""
        if self._turn.last_prompt in dropped and self._calls.interruption is None:
            self._erased = self._turn.last_prompt

    def settle_erased(self, is_last: bool) -> None:
        """Add an interruption for a turn that was erased without a known reason; in a terminal there always is one."""
        erased, self._erased = self._erased, None
        if erased is None or self._is_in_terminal or (is_last and self._turn.last_reply < 0):
            return
        self._builder.events.interruptions.append(
            m.Interruption(
                message_index=erased,
                interrupted_message_index=erased,
                type="user",
                during="response",
                evidence="the turn was erased",
                confidence=0.5,
            )
        )


def _reports_loop(text: str) -> bool:
    """Whether a note says that the model is in a loop. A note may be very long, so no regular expression is used."""
    lowered = text.lower()
    return any(words in lowered for words in _LOOP)
