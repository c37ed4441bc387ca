"""Going back in a Codex thread: turns that are dropped, and other messages that are lost."""

from __future__ import annotations

from datetime import timedelta

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import NONE
from .history import PromptHistory
from .schema import CodexRecord
from .token_usage import TokenMeter
from .tool_calls import CodexToolCalls
from .turn import CodexTurn

_AT_ONCE = timedelta(seconds=1)
_DROPS_ALL_FROM = (0, 100)
"""From this version on, going back past a compaction drops everything."""


class Rollbacks:
    """Moves the end of the conversation back, and adds the rollback once the conversation continues."""

    def __init__(
        self,
        builder: SessionBuilder,
        turn: CodexTurn,
        history: PromptHistory,
        calls: CodexToolCalls,
        tokens: TokenMeter,
        version: tuple[int, ...],
    ) -> None:
        self.is_pending = False
        """Whether `continued` has to be called with the next message."""
        self.has_dropped = False
        """Whether turns were ever dropped."""
        self._builder = builder
        self._turn = turn
        self._history = history
        self._calls = calls
        self._tokens = tokens
        self._version = version
        self._went_back: tuple[int, str] | None = None
        self._lost: list[int] = []

    def drop_turns(self, record: CodexRecord, turns: int, inherited: bool) -> None:
        """Drop the last turns: the next message is attached to the one before them."""
        dropped = self._history.drop_last(turns)
        if not dropped:
            return
        self.has_dropped = True
        self._tokens.forget_size()
        first = dropped[0]
        if inherited or self._is_withdrawn(record, len(dropped)):
            self._builder.events.branch_reasons[first] = "interrupted"
        else:
            self._went_back = first, "thread_rolled_back"
        self._turn.tip = self._builder.columns.parents[first]
        self._turn.in_reply = False
        if not self._history.summaries.isdisjoint(dropped):
            self._go_past_compaction()
        self.is_pending = self._went_back is not None or bool(self._lost)

    def _is_withdrawn(self, record: CodexRecord, turns: int) -> bool:
        """Whether Codex dropped the prompt itself, as 0.139 does if it was stopped before any text was written."""
        last = self._calls.aborts[-1] if self._calls.aborts else None
        if last is None or last.message != self._turn.tip or turns != 1 or self._turn.has_text:
            return False
        return record.timestamp is None or last.timestamp is None or record.timestamp - last.timestamp < _AT_ONCE

    def _go_past_compaction(self) -> None:
        """Go back past a compaction, which restores nothing: at best, what the compaction kept is still there."""
        if self._version >= _DROPS_ALL_FROM:
            self._history.clear()
            self._turn.tip = NONE
            if self._went_back is not None:
                self._went_back = 0, self._went_back[1]
            return
        kept = self._history.indices()
        lost = []
        index = self._turn.tip
        while index >= 0:
            if index not in kept:
                lost.append(index)
            index = self._builder.columns.parents[index]
        self._lost = sorted(lost)

    def go_back(self, target: int, evidence: str) -> None:
        """Continue from an earlier message, or from the start."""
        if target != self._turn.tip:
            self._went_back = target + 1, evidence
            self.is_pending = True
        self._history.drop_after(target)
        self._turn.tip = target
        self._turn.in_reply = False

    def continued(self, record: CodexRecord, index: int, is_prompt: bool) -> None:
        """Read a message after going back; the rollback is added at the first prompt."""
        events = self._builder.events
        if self._lost:
            lost, self._lost = self._lost, []
            evidence = "went back past a compaction"
            events.resumes.append(m.Resume(message_index=index, lost_message_indices=lost, evidence=evidence))
        if self._went_back is not None and is_prompt:
            first, evidence = self._went_back
            self._went_back = None
            dropped = list(range(first, index))
            if dropped:
                events.branch_reasons[dropped[0]] = "rewind"
                events.rollbacks.append(
                    m.Rollback(
                        message_index=index,
                        dropped_message_indices=dropped,
                        timestamp=record.timestamp,
                        evidence=evidence,
                    )
                )
        self.is_pending = self._went_back is not None
