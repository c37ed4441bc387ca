"""Prompts that were typed while a turn of Claude Code ran."""

from __future__ import annotations

from ...core import model as m
from ...core.builder import SessionBuilder
from .authors import HARNESS_TEXT, SUBAGENT_TEXT
from .content import flat_text
from .schema import ClaudeRecord


class PromptQueue:
    """Follows the queue of prompts.

    When a running turn takes a prompt from the queue, 2.0.x records only its removal. Later versions write a record of
    its own for the prompt too.
    """

    def __init__(self) -> None:
        self.taken: list[tuple[str, m.Source]] = []
        """Prompts that a turn took from the queue, until another record has them."""
        self._waiting: list[tuple[str, m.Source]] = []

    def read(self, record: ClaudeRecord, source: m.Source) -> None:
        """Read a change of the queue."""
        if record.operation == "enqueue":
            self._waiting.append((flat_text(record.content)[0], source))
        elif record.operation == "remove" and self._waiting:
            self.taken.append(self._waiting.pop(0))
        elif record.operation in ("dequeue", "popAll"):
            del self._waiting[: 1 if record.operation == "dequeue" else None]

    def recorded(self, text: str) -> None:
        """A record of its own has the prompt."""
        self.taken = [entry for entry in self.taken if entry[0] != text]

    def add_taken(self, builder: SessionBuilder, record: ClaudeRecord, parent: int) -> None:
        """Add the prompts that no other record has, before the answer of the model."""
        for text, source in self.taken:
            if text and not text.startswith((*SUBAGENT_TEXT, *HARNESS_TEXT)):
                blocks: list[m.Block] = [m.Text(text)]
                builder.add("user", "human", blocks, source, None, parent, record.timestamp, queued=True)
        self.taken.clear()
