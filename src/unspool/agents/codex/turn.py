"""The current turn of a Codex thread, and the end of its conversation."""

from __future__ import annotations

from ...core.tree import NONE


class CodexTurn:
    """The last prompt and reply, the end of the conversation, and the response that is being written."""

    __slots__ = (
        "has_prompt", "has_text", "in_reply", "is_running", "last_model", "last_prompt", "last_user", "model",
        "reply", "reply_number", "spoke", "tip",
    )  # fmt: skip

    def __init__(self) -> None:
        self.tip = NONE
        """The message that the next one is attached to."""
        self.model: str | None = None
        self.last_model = NONE
        self.last_prompt = NONE
        self.last_user = (NONE, 0)
        """The last user message, and the hash of its text."""
        self.spoke = False
        """Whether the model wrote text or called a tool since the last prompt."""
        self.has_text = False
        """Whether the model wrote text since the last prompt."""
        self.is_running = False
        self.has_prompt = False
        """Whether the turn has a prompt, so another one was typed while it ran."""
        self.reply = ""
        """Key of the response that is being written."""
        self.in_reply = False
        self.reply_number = 0

    @property
    def interrupted(self) -> int | None:
        """The message that an interruption cuts off."""
        index = self.last_model if self.spoke else self.last_prompt
        return index if index >= 0 else None

    def start(self) -> None:
        """Start a turn."""
        self.in_reply = False
        self.is_running = True
        self.has_prompt = False

    def prompted(self, index: int) -> None:
        """Note a prompt of a person."""
        self.last_prompt = index
        self.spoke = self.has_text = False
        self.has_prompt = True

    def start_reply(self) -> None:
        """Start a response of the model."""
        self.reply_number += 1
        self.reply = str(self.reply_number)
        self.in_reply = True
