"""The current turn of a Gemini session."""

from __future__ import annotations

from ...core import model as m
from ...core.tree import NONE


class GeminiTurn:
    """The last prompt and the last reply."""

    __slots__ = ("last_prompt", "last_reply", "reply_blocks", "was_restored")

    def __init__(self) -> None:
        self.last_prompt = NONE
        self.last_reply = NONE
        self.reply_blocks: list[m.Block] = []
        """Content of the last reply."""
        self.was_restored = False
        """Whether /restore was used since the last prompt; it runs a tool call again."""

    @property
    def has_reply(self) -> bool:
        """Whether the model has replied to the last prompt."""
        return self.last_reply > self.last_prompt

    def is_after(self, index: int) -> bool:
        """Whether the conversation continued after a reply."""
        return self.last_reply > index or self.last_prompt > index
