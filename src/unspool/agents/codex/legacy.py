"""Formats of early versions of Codex CLI: lines without an envelope (0.29 and before), and the TypeScript CLI (0.1)."""

from __future__ import annotations

from ...core import model as m
from ...core.builder import SessionBuilder
from .chain import CodexChain
from .schema import CodexRecord
from .tool_calls import CodexToolCalls
from .turn import CodexTurn

_FIXED_ANSWERS = ("Don't do that, keep going", "No, don't do that")


class LegacyFormats:
    """Remembers which early format a thread has, and reads its notes."""

    def __init__(self, builder: SessionBuilder, chain: CodexChain, turn: CodexTurn, calls: CodexToolCalls) -> None:
        self.is_bare = False
        """Whether its lines, or the elements of its document, have no envelope."""
        self.is_typescript = False
        self._builder = builder
        self._chain = chain
        self._turn = turn
        self._calls = calls

    @property
    def content_path(self) -> tuple[str, ...]:
        """The path to the content of a message in its line."""
        return ("content",) if self.is_bare else ("payload", "content")

    def read_note(self, record: CodexRecord, source: m.Source, text: str) -> bool:
        """Read a note of the TypeScript CLI, its only trace of an interruption or a clear; False if it is neither."""
        if text == "Terminal cleared":
            index = self._chain.add(record, source, "system", "harness", [m.Attachment("clear", text)], False)
            self._cleared(index)
            return True
        if "interrupted by user" not in text:
            return False
        self._interrupted(record, source)
        return True

    def _cleared(self, index: int) -> None:
        clears = self._builder.events.context_clears
        if not clears or clears[-1].after_message_index != index - 1:
            clears.append(m.ContextClear(after_message_index=index, evidence="session", confidence=0.9))
        else:
            clears[-1].after_message_index = index

    def _interrupted(self, record: CodexRecord, source: m.Source) -> None:
        builder, turn = self._builder, self._turn
        during: m.During = "tool" if builder.calls.open else "response"
        index = self._chain.add(record, source, "system", "harness", [m.InterruptionMark(during)], False)
        builder.events.interruptions.append(
            m.Interruption(
                message_index=index,
                interrupted_message_index=turn.interrupted,
                type="user",
                during=during,
                tool_use_ids=list(builder.calls.open),
                evidence="note",
            )
        )
        if not turn.spoke and turn.last_prompt >= 0:
            # The next request continues from the last complete response: nothing of this turn is in it.
            builder.events.branch_reasons[turn.last_prompt] = "interrupted"
            turn.tip = builder.columns.parents[turn.last_prompt]

    def author_after_rejection(self, text: str) -> m.Author | None:
        """Return the author of a message that explains a rejection, a person or the CLI; None if it explains none."""
        last = self._calls.last
        if last is None or last.verdict.kind != "rejected" or last.message != self._turn.tip:
            return None
        rejection = self._builder.events.rejections[-1]
        if not text.startswith(_FIXED_ANSWERS):
            rejection.reason = text
        return "human" if rejection.reason is not None else "harness"
