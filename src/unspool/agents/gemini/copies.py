"""Recognises messages that Gemini CLI writes again under new ids.

Rejecting a turn, resuming a saved chat and compressing the history record the remaining messages once more. A message
that may be such a copy is held back until the next record shows whether it is one.
"""

from __future__ import annotations

from typing import NamedTuple

from ...core import model as m
from .authors import SNAPSHOT
from .content import parts_of, responses_of, text_of
from .conversation import Conversation
from .schema import GeminiMessage


class HeldMessage(NamedTuple):
    """A message that may be a copy."""

    message: GeminiMessage
    source: m.Source


class Copies:
    """Finds the originals of copied messages by their text."""

    def __init__(self, conversation: Conversation) -> None:
        self.held: list[HeldMessage] = []
        self._conversation = conversation
        self._by_text: dict[int, list[int]] = {}

    def remember(self, kind: str, text: str, index: int) -> None:
        """Remember the text of a message, so that a copy of it is recognised."""
        text = text.strip()
        if text:
            self._by_text.setdefault(hash((kind, text)), []).append(index)

    def originals(self, message: GeminiMessage) -> list[int]:
        """Return the messages that a copy repeats.

        The first copy has the session context and the first prompt in one message.
        """
        kind = "user" if message.type == "user" else "gemini"
        found: list[int] = []
        for text in [part.text for part in parts_of(message.content) if part.text and not part.thought] or [""]:
            indices = self._by_text.get(hash((kind, text.strip())))
            if indices:
                later = [index for index in indices if not found or index > found[-1]]
                found.append(later[0] if later else indices[-1])
        if not found and (responses := responses_of(message)):
            found = self._by_text.get(hash(("result", responses[0].id or "")), [])[-1:]
        return found

    def indices_of(self, message: GeminiMessage) -> list[int]:
        """Return where a message is already in the session, by its id or as a copy; empty if it is new."""
        indices = self._conversation.indices.get(message.id)
        if indices is None:
            indices = self.originals(message)
            if indices:
                self._conversation.indices[message.id] = indices
        return indices

    def find_snapshot(self, messages: list[GeminiMessage]) -> GeminiMessage | None:
        """Return the first snapshot that is not in the session yet."""
        new = (message for message in messages if self._conversation.indices.get(message.id) is None)
        return next((message for message in new if text_of(message).startswith(SNAPSHOT)), None)

    def is_held(self, id: str) -> bool:
        """Whether a message with this id is held back."""
        return any(held.message.id == id for held in self.held)

    def are_all_held(self, messages: list[GeminiMessage]) -> bool:
        """Whether the messages are exactly those that are held back."""
        return bool(self.held) and {held.message.id for held in self.held} == {message.id for message in messages}

    def drop_copies(self) -> None:
        """The messages held back are what the conversation continues with: drop the copies among them."""
        for held in self.held:
            indices = self.originals(held.message)
            if indices:
                self._conversation.indices[held.message.id] = indices
        self.held = [held for held in self.held if self._conversation.indices.get(held.message.id) is None]

    def take_held(self) -> list[HeldMessage]:
        """Return the messages held back, which turned out to be new."""
        held, self.held = self.held, []
        return held
