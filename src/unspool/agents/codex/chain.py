"""Adds the messages of a Codex thread. Codex writes no parents: each message follows the one before it."""

from __future__ import annotations

from ...core import model as m
from ...core.builder import SessionBuilder
from .rollback import Rollbacks
from .schema import CodexRecord
from .turn import CodexTurn

_BATCHED = ((0, 30), (0, 64))
"""Versions (the end is exclusive) that write all lines of a model step at its end, each call followed by its result."""


class CodexChain:
    """Attaches each message to the end of the conversation."""

    def __init__(
        self, builder: SessionBuilder, turn: CodexTurn, rollbacks: Rollbacks, version: tuple[int, ...]
    ) -> None:
        self.result_ends_reply = not _BATCHED[0] <= version < _BATCHED[1]
        self._builder = builder
        self._turn = turn
        self._rollbacks = rollbacks

    def add(
        self,
        record: CodexRecord,
        source: m.Source,
        role: m.Role,
        author: m.Author,
        blocks: list[m.Block],
        inherited: bool,
        id: str | None = None,
    ) -> int:
        """Add a message, and return its index."""
        turn = self._turn
        if role == "assistant" and author == "model":
            if not turn.in_reply:
                turn.start_reply()
            index = self._builder.add_reply(
                blocks, source, id, turn.tip, record.timestamp, turn.model, turn.reply, None, inherited
            )
        else:
            queued = author == "human" and turn.is_running and turn.has_prompt
            index = self._builder.add(role, author, blocks, source, id, turn.tip, record.timestamp, inherited, queued)
        if self._rollbacks.is_pending:
            self._rollbacks.continued(record, index, is_prompt=author == "human" and not inherited)
        turn.tip = index
        return index
