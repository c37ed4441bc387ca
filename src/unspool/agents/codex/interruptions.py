"""Turns of a Codex thread that were stopped, by a person or by an error."""

from __future__ import annotations

import msgspec

from ...core import model as m
from ...core.builder import SessionBuilder
from .chain import CodexChain
from .schema import CodexPayload, CodexRecord
from .tool_calls import Abort, CodexToolCalls, during
from .turn import CodexTurn

_SILENT_BEFORE = (0, 30)
"""Older versions record neither aborts nor rejections: only the text of the model gives a hint."""
_RATE_LIMIT = "rate limiting"
_CUES = ("aborted", "cancelled", _RATE_LIMIT)


class CodexInterruptions:
    """Reads aborts and errors."""

    def __init__(
        self,
        builder: SessionBuilder,
        chain: CodexChain,
        turn: CodexTurn,
        calls: CodexToolCalls,
        version: tuple[int, ...],
    ) -> None:
        self.needs_cues = version < _SILENT_BEFORE
        """Whether the text of the model has to be searched for hints."""
        self._builder = builder
        self._chain = chain
        self._turn = turn
        self._calls = calls

    def aborted(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        """Read the abort of a turn; whether a rejection caused it is decided after the last line."""
        turn, calls = self._turn, self._calls
        turn.is_running = False
        results = calls.since(turn.last_model) if turn.spoke else []
        index = self._chain.add(record, source, "system", "harness", [m.InterruptionMark(during(results))], inherited)
        turn.in_reply = False
        if not inherited:
            reason = payload.reason or "interrupted"
            calls.aborts.append(
                Abort(
                    index, turn.interrupted, record.timestamp, reason, results, calls.can_ask, calls.are_denied_in_a_row
                )
            )

    def failed(self, record: CodexRecord, source: m.Source, text: str, info: msgspec.Raw, inherited: bool) -> None:
        """Read an error of the API."""
        index = self._chain.add(record, source, "system", "harness", [m.Attachment("error", text)], inherited)
        if inherited:
            return
        events, at = self._builder.events, record.timestamp
        events.errors.append(m.Failure(kind="api_error", message_index=index, text=text, ended_turn=True, timestamp=at))
        limited = b"usage_limit" in bytes(info) or b"rate_limit" in bytes(info) or "rate limit" in text.lower()
        if limited or self._turn.spoke:
            events.interruptions.append(
                m.Interruption(
                    message_index=index,
                    interrupted_message_index=self._turn.interrupted,
                    type="system",
                    during="response",
                    timestamp=at,
                    evidence="error event",
                    confidence=0.9,
                )
            )

    def find_cue(self, record: CodexRecord, index: int, text: str) -> None:
        """Search the text of the model for hints of an abort."""
        lowered = text.lower()
        cues = [cue for cue in _CUES if cue in lowered]
        if cues:
            self._builder.events.interruptions.append(
                m.Interruption(
                    message_index=index,
                    interrupted_message_index=index,
                    type="system" if _RATE_LIMIT in cues else "user",
                    during="tool",
                    timestamp=record.timestamp,
                    evidence=f"the words {', '.join(map(repr, cues))}",
                    confidence=0.2,
                )
            )
