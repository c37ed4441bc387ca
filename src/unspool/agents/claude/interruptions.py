"""Turns of a Claude Code conversation that were stopped, by a person or by an API error."""

from __future__ import annotations

import re

from ...core import model as m
from ...core.builder import SessionBuilder
from .chain import ClaudeChain
from .schema import ClaudeRecord
from .tool_calls import ClaudeToolCalls
from .turn import ClaudeTurn

_STATUS_CODE = re.compile(r"API Error: (\d{3})")
_RATE_LIMIT = re.compile(r"rate.?limit|usage limit|limit reached", re.IGNORECASE)
_LOST_CONNECTION = re.compile(r"connection (?:error|lost|closed|reset)|timed? ?out|ECONNRE|socket", re.IGNORECASE)
_OUTPUT_LIMIT = re.compile(r"output token maximum")


class ClaudeInterruptions:
    """Reads interruption markers and API errors."""

    def __init__(self, builder: SessionBuilder, chain: ClaudeChain, turn: ClaudeTurn, calls: ClaudeToolCalls) -> None:
        self.ended_by_rejection = False
        """Whether the last marker closed a rejection."""
        self._builder = builder
        self._chain = chain
        self._turn = turn
        self._calls = calls

    def read_marker(self, record: ClaudeRecord, source: m.Source, text: str, inherited: bool) -> None:
        """Read the marker that ends a turn that was interrupted, or whose calls were rejected."""
        stop = self._calls.stop(record, text, self._turn.is_headless or is_headless(record))
        block: m.Block = m.Text(text) if stop.is_rejection else m.InterruptionMark(stop.during)
        index = self._chain.add(record, source, "user", "harness", [block], inherited=inherited)
        if index is None:
            return
        self._calls.settle(stop, inherited)
        self.ended_by_rejection = stop.is_rejection
        if stop.is_rejection or inherited:
            return
        self._builder.events.interruptions.append(
            m.Interruption(
                message_index=index,
                interrupted_message_index=self._turn.interrupted,
                type="user",
                during=stop.during,
                timestamp=record.timestamp,
                tool_use_ids=[entry.call_id for entry in stop.results],
                evidence="marker after a refusal text, headless" if stop.is_doubtful else "marker",
                confidence=0.5 if stop.is_doubtful else 1.0,
            )
        )

    def api_error(self, record: ClaudeRecord, index: int, text: str) -> None:
        """Add an error that ended a turn, and the interruption it caused."""
        code = _STATUS_CODE.search(text)
        status = record.api_error_status or (int(code[1]) if code else None)
        kind: m.FailureKind = "truncated" if _OUTPUT_LIMIT.search(text) else "api_error"
        self.add_error(kind, index, text, record, status=status, ended_turn=True)
        if kind == "api_error" and self._broke_off(status, text):
            self._builder.events.interruptions.append(
                m.Interruption(
                    message_index=index,
                    interrupted_message_index=self._turn.interrupted,
                    type="system",
                    during="response",
                    timestamp=record.timestamp,
                    evidence=f"API error {status}" if status else "API error",
                    confidence=0.9,
                )
            )

    def _broke_off(self, status: int | None, text: str) -> bool:
        """Whether an error broke off a turn, rather than preventing it."""
        if status == 429 or _RATE_LIMIT.search(text):
            return True
        lost = status >= 500 if status is not None else bool(_LOST_CONNECTION.search(text))
        return self._turn.model_spoke and lost

    def add_error(
        self,
        kind: m.FailureKind,
        index: int,
        text: str,
        record: ClaudeRecord,
        status: int | None = None,
        ended_turn: bool = False,
    ) -> None:
        """Add an error."""
        self._builder.events.errors.append(
            m.Failure(
                kind=kind,
                message_index=index,
                text=text,
                status=status,
                ended_turn=ended_turn,
                timestamp=record.timestamp,
            )
        )


def is_headless(record: ClaudeRecord) -> bool:
    """Whether a program, not a terminal, runs the agent."""
    return record.entrypoint is not None and record.entrypoint.startswith("sdk")
