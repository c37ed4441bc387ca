"""The current turn of a Claude Code conversation."""

from __future__ import annotations

from ...core.tree import NONE


class ClaudeTurn:
    """The last prompt, and the last message of the model."""

    __slots__ = ("is_headless", "last_model", "last_prompt", "model_spoke")

    def __init__(self) -> None:
        self.last_model = NONE
        self.last_prompt = NONE
        self.model_spoke = False
        """Whether the model wrote something since the last prompt."""
        self.is_headless = False
        """Whether a program, not a person at a terminal, sent the prompt."""

    @property
    def interrupted(self) -> int | None:
        """The message that an interruption cuts off."""
        index = self.last_model if self.model_spoke else self.last_prompt
        return index if index >= 0 else None

    def prompted(self, index: int, is_headless: bool) -> None:
        """Start a turn with a new prompt."""
        self.last_prompt = index
        self.model_spoke = False
        self.is_headless = is_headless
