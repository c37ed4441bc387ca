"""Compressions of a Gemini session.

Since 0.45 the agent replaces the conversation with a list that has a snapshot, and a note follows. Before that, there
is only a note.
"""

from __future__ import annotations

import re

from ...core import model as m
from ...core.builder import SessionBuilder
from .schema import GeminiMessage

_NOTE_START, _NOTE_WORDS = "Context compressed from", "exceeded the compress threshold"
_TOKENS = re.compile(r"compressed from: (\d{1,18}) to (\d{1,18}) tokens")


class GeminiCompactions:
    """Adds the compactions of a session."""

    def __init__(self, builder: SessionBuilder) -> None:
        self._builder = builder
        self.context_tokens: int | None = None
        """The size of the last request."""
        self.note_is_due = False
        """Whether the note that follows the last snapshot has not been read yet."""

    def note_tokens(self, message: GeminiMessage) -> None:
        """Remember the size of the context."""
        if message.tokens is not None and message.tokens.input:
            self.context_tokens = message.tokens.input

    @staticmethod
    def is_note(message: GeminiMessage, text: str) -> bool:
        """Whether a note of the interface reports a compression."""
        return message.type == "info" and (not text or text.startswith(_NOTE_START) or _NOTE_WORDS in text)

    def add_snapshot(self, message: GeminiMessage, index: int, summary: str, last: int | None, kept: set[int]) -> None:
        """Add a compaction: older messages were replaced by a snapshot after `last`, and `kept` stay in context."""
        self._builder.events.boundaries.append(
            m.Boundary(
                after_message_index=last,
                message_index=index,
                summary_message_index=index,
                trigger=None,
                timestamp=message.timestamp,
                pre_tokens=self.context_tokens,
                pre_tokens_source="usage" if self.context_tokens is not None else None,
                summary=summary,
                summary_source="inline",
                preserved_message_indices=sorted(kept),
            )
        )
        self.note_is_due = True

    def read_note(self, message: GeminiMessage, index: int, text: str) -> None:
        """Complete the compaction that the last snapshot added, or add one if there was no snapshot."""
        trigger: m.Trigger = "auto" if text else "manual"
        boundaries = self._builder.events.boundaries
        if self.note_is_due:
            self.note_is_due = False
            boundaries[-1].trigger = trigger
            return
        counts = _TOKENS.search(text)
        tokens = int(counts[1]) if counts else self.context_tokens
        boundaries.append(
            m.Boundary(
                after_message_index=index - 1 if index else None,
                message_index=index,
                trigger=trigger,
                timestamp=message.timestamp,
                pre_tokens=tokens,
                post_tokens=int(counts[2]) if counts else None,
                pre_tokens_source="recorded" if counts else "usage" if tokens is not None else None,
                context_recorded=False,
            )
        )
