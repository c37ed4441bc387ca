"""Compactions of a Codex thread."""

from __future__ import annotations

from ...core import model as m
from ...core.builder import SessionBuilder
from .chain import CodexChain
from .history import PromptHistory
from .rollback import Rollbacks
from .schema import CodexPayload, CodexRecord
from .token_usage import TokenMeter
from .tool_calls import CodexToolCalls
from .turn import CodexTurn

_OWN_TURN_FROM = (0, 100)
"""From this version on, a compaction that a person requested has its own turn."""
_LOST_ON_RESUME = ((0, 100), (0, 148))
"""Versions (the end is exclusive) that can lose a compaction on resume (seen: 0.118 to 0.139)."""


class CodexCompactions:
    """Adds the compactions, and finds resumes that lost one."""

    def __init__(
        self,
        builder: SessionBuilder,
        chain: CodexChain,
        turn: CodexTurn,
        history: PromptHistory,
        rollbacks: Rollbacks,
        calls: CodexToolCalls,
        tokens: TokenMeter,
        version: tuple[int, ...],
    ) -> None:
        self._builder = builder
        self._chain = chain
        self._turn = turn
        self._history = history
        self._rollbacks = rollbacks
        self._calls = calls
        self._tokens = tokens
        self._version = version
        self._first_in_turn: m.Boundary | None = None
        """A compaction that comes before the prompt of its turn, if a prompt follows."""
        self._dropped_before = False
        """Whether turns were dropped before the last compaction."""

    def compacted(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        """Read a compaction."""
        replacement = payload.replacement_history or record.replacement_history
        encrypted = any(item.type in ("compaction", "context_compaction") for item in replacement or ())
        summary = payload.message or ("" if encrypted else None)
        above, tokens = self._turn.tip, self._tokens.in_context
        index = self._chain.add(record, source, "user", "harness", [m.CompactionMark(summary)], inherited)
        self._turn.in_reply = False
        boundary = m.Boundary(
            after_message_index=above if above >= 0 else None,
            message_index=index,
            summary_message_index=index,
            trigger=self._trigger(),
            timestamp=record.timestamp,
            pre_tokens=tokens,
            pre_tokens_source="usage" if tokens is not None else None,
            summary=summary,
            summary_source="replacement_history" if replacement and not payload.message else "inline",
            preserved_message_indices=self._history.preserved_by(replacement),
        )
        if boundary.trigger == "manual":
            self._first_in_turn = boundary
        self._dropped_before = self._rollbacks.has_dropped
        self._history.compact(index, set(boundary.preserved_message_indices))
        self._builder.events.add_boundary(boundary, inherited)
        self._tokens.note_compaction(boundary)

    def _trigger(self) -> m.Trigger | None:
        """Infer who requested a compaction, as no field says so: a person, if it has its own turn without a prompt."""
        if not self._version or self._version < _OWN_TURN_FROM:
            last = self._calls.last
            is_after_result = last is not None and last.message == self._builder.columns.parents[self._turn.tip]
            return "auto" if is_after_result else None
        return "auto" if self._turn.has_prompt else "manual"

    def turn_started(self) -> None:
        """Note a new turn: a prompt that follows is not in the turn of the last compaction."""
        self._first_in_turn = None

    def prompted(self) -> None:
        """Note a prompt: nobody requested a compaction that came before it in the same turn."""
        if self._first_in_turn is not None:
            self._first_in_turn.trigger = "auto"
            self._first_in_turn = None

    def context_shrank(self, last_review: int | None) -> None:
        """Add a resume that lost the last compaction, if it may have.

        0.118 to 0.139 lose a compaction on resume if turns were dropped before it and a review came after it. A resume
        is not recorded, but the context is smaller than before.
        """
        boundaries = self._builder.events.boundaries
        if not boundaries or not self._dropped_before or last_review is None:
            return
        boundary, prompt = boundaries[-1], self._turn.last_prompt
        first, end = _LOST_ON_RESUME
        if first <= self._version < end and last_review > boundary.message_index and prompt > boundary.message_index:
            self._builder.events.resumes.append(
                m.Resume(
                    message_index=prompt,
                    lost_message_indices=[*boundary.preserved_message_indices, boundary.message_index],
                    evidence="the context shrank by its token count",
                )
            )
