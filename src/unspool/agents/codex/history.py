"""The prompts and replies of a Codex thread that a rollback drops or a compaction keeps."""

from __future__ import annotations

from typing import NamedTuple

from ...core.recent import Recent
from .content import joined_text
from .schema import CodexPayload

_KEPT_BYTES = 4 * 20_000
"""A compaction before 0.118 keeps the newest prompts, up to 20,000 tokens of about four bytes."""


class HistoryEntry(NamedTuple):
    """A prompt, or a summary, which counts as one."""

    message: int
    text_hash: int
    size: int


class PromptHistory:
    """The prompts that are in the conversation, and recent replies by their text."""

    def __init__(self) -> None:
        self.first_prompt: str | None = None
        """The first prompt of a person, or the task of a sub-agent."""
        self.summaries: set[int] = set()
        self._prompts: list[HistoryEntry] = []
        self._replies: Recent[int, int] = Recent()

    def add_prompt(self, index: int, text: str) -> None:
        """Add a prompt of a person."""
        self._prompts.append(HistoryEntry(index, hash(text), len(text.encode("utf-8", "replace"))))

    def note_first(self, text: str) -> None:
        """Note a prompt or task that may be the first one of the session."""
        if self.first_prompt is None:
            self.first_prompt = text

    def add_reply(self, index: int, text: str) -> None:
        """Add a text of the model."""
        self._replies.put(hash(text), index)

    def compact(self, index: int, kept: set[int]) -> None:
        """Replace the prompts with those that are kept and a summary."""
        self._prompts = [entry for entry in self._prompts if entry.message in kept]
        self._prompts.append(HistoryEntry(index, 0, 0))
        self.summaries.add(index)

    def drop_last(self, turns: int) -> list[int]:
        """Drop the prompts of the last turns, and return their messages."""
        dropped = self._prompts[-turns:] if turns else []
        if dropped:
            del self._prompts[-turns:]
        return [entry.message for entry in dropped]

    def drop_after(self, index: int) -> None:
        """Drop the prompts after a message."""
        self._prompts = [entry for entry in self._prompts if entry.message <= index]

    def clear(self) -> None:
        """Drop all prompts."""
        self._prompts.clear()

    def indices(self) -> set[int]:
        """Return the messages with a prompt or a summary."""
        return {entry.message for entry in self._prompts}

    def preserved_by(self, replacement: list[CodexPayload] | None) -> list[int]:
        """Return the messages that a compaction keeps: those in the replacement history, or the newest prompts."""
        if replacement is None:
            return self._newest()
        found: set[int] = set()
        known = {entry.text_hash: entry.message for entry in self._prompts if entry.message not in self.summaries}
        for item in replacement:
            if item.type == "message" and item.role in ("user", "assistant"):
                text_hash = hash(joined_text(item.content))
                index = known.get(text_hash) if item.role == "user" else self._replies.get(text_hash)
                if index is not None:
                    found.add(index)
        return sorted(found)

    def _newest(self) -> list[int]:
        kept: list[int] = []
        left = _KEPT_BYTES
        for index, _, size in reversed(self._prompts):
            if index in self.summaries:
                continue
            left -= size
            if left < 0:
                break
            kept.append(index)
        return sorted(kept)
