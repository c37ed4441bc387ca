"""Signs that Claude Code loaded a session again. No record says so."""

from __future__ import annotations

from .schema import ClaudeUsage
from .turn import ClaudeTurn


class ResumeSigns:
    """Where a session was probably resumed."""

    def __init__(self, turn: ClaudeTurn) -> None:
        self.placeholders: list[int] = []
        """Answers that the harness wrote in place of the model."""
        self.shrunk_at: list[int] = []
        """Prompts before which the context got smaller without a compaction."""
        self.watches_size = False
        """Whether the size of the context has to be followed: it tells something in 2.1 only."""
        self._turn = turn
        self._size = 0

    def read_usage(self, usage: ClaudeUsage | None) -> None:
        """Compare the size of the context with that of the last request."""
        if usage is None:
            return
        size = usage.input_tokens or 0
        size += (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
        if 0 < size < self._size and self._turn.last_prompt >= 0 and not self._turn.model_spoke:
            self.shrunk_at.append(self._turn.last_prompt)
        self._size = size or self._size

    def compacted(self) -> None:
        """A compaction makes the context smaller."""
        self._size = 0
