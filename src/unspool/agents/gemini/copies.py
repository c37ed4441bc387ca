"""Recognises messages that Gemini CLI writes again under new ids.

After a rejected turn, a resumed chat or a compression, the agent records the remaining messages again. A message that
may be such a copy is held back until the next record shows whether it is one.
"""

from __future__ import annotations

from typing import NamedTuple

from ...core import model as m
from .authors import SESSION_CONTEXT, SNAPSHOT
from .content import parts_of, responses_of, text_of
from .conversation import Conversation
from .schema import GeminiMessage, GeminiPart


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
        """Remember the text of a message, to recognise copies of it."""
        text = text.strip()
        if text:
            self._by_text.setdefault(hash((kind, text)), []).append(index)

    def originals(self, message: GeminiMessage) -> list[int]:
        """Return the messages that a copy repeats; none if any of its texts is new.

        The first copy has the session context and the first prompt in one message.
        """
        found, new = self._match(message)
        if new and message.type == "user":
            return []
        if not found and (responses := responses_of(message)):
            found = self._by_text.get(hash(("result", responses[0].id or "")), [])[-1:]
        return found

    def _match(self, message: GeminiMessage) -> tuple[list[int], list[GeminiPart]]:
        """Return the messages that have the texts of a message, and the texts that are new."""
        kind = "user" if message.type == "user" else "gemini"
        found: list[int] = []
        new: list[GeminiPart] = []
        for part in parts_of(message.content):
            if not part.text or part.thought:
                continue
            indices = self._by_text.get(hash((kind, part.text.strip())))
            if indices:
                later = [index for index in indices if not found or index > found[-1]]
                found.append(later[0] if later else indices[-1])
            else:
                new.append(part)
        return found, new

    def split(self, message: GeminiMessage) -> tuple[list[int], list[GeminiMessage]]:
        """Return the messages that have parts of a new message, and the messages to add for the rest.

        A chat that is resumed in another session begins with a session context, which that session may have already,
        and its first prompt, in one message.
        """
        if message.type != "user" or not all(part.text for part in parts_of(message.content)):
            return [], [message]
        known, new = self._match(message)
        pieces: list[GeminiMessage] = []
        if len(new) > 1 and (new[0].text or "").startswith(SESSION_CONTEXT):
            pieces.append(GeminiMessage(type="user", timestamp=message.timestamp, content=[new.pop(0)]))
        if known or pieces:
            message.content = new
        return known, [*pieces, message]

    def indices_of(self, message: GeminiMessage) -> list[int]:
        """Return the indices of a message in the session, by its id or as a copy; empty if it is new."""
        indices = self._conversation.indices.get(message.id)
        if indices is None:
            indices = self.originals(message)
            if indices:
                self._conversation.indices[message.id] = indices
        return indices

    def find_snapshot(self, messages: list[GeminiMessage]) -> GeminiMessage | None:
        """Return the first snapshot that is not in the session yet."""
        known = self._conversation.indices
        for message in messages:
            if message.id not in known and text_of(message).startswith(SNAPSHOT):
                return message
        return None

    def is_held(self, id: str) -> bool:
        """Whether a message with this id is held back."""
        return id in [held.message.id for held in self.held]

    def take_copied(self, messages: list[GeminiMessage]) -> dict[str, m.Source]:
        """Stop holding back messages if they are exactly those of a replacing list; returns their sources."""
        if not self.held:
            return {}
        sources = {held.message.id: held.source for held in self.held}
        if sources.keys() != {message.id for message in messages}:
            return {}
        self.held = []
        return sources
