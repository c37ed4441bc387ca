"""The conversation as Gemini CLI edits it: an append-only log of additions, replacements, truncations and resets.

The log only grows, but the conversation does not: the agent rewrites a message to complete it, drops the last messages,
and replaces the whole list to compress it. Messages that leave the conversation stay in the session, as branches.
"""

from __future__ import annotations

import msgspec

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import NONE
from .schema import GeminiMessage


class Add(msgspec.Struct, gc=False):
    """Append a message."""

    message: GeminiMessage
    source: m.Source
    role: m.Role
    author: m.Author
    blocks: list[m.Block]
    usage: m.Usage | None = None


class Replace(msgspec.Struct, gc=False):
    """Give a message new content."""

    target: int
    blocks: list[m.Block]
    usage: m.Usage | None = None


class Truncate(msgspec.Struct, gc=False):
    """Drop a message and all after it; all messages if it is not in the conversation."""

    id: str


class Reset(msgspec.Struct, gc=False):
    """Continue with exactly these messages."""

    indices: list[int]


Operation = Add | Replace | Truncate | Reset


class Conversation:
    """The messages that are in the conversation now, by their index in the session."""

    def __init__(self, builder: SessionBuilder) -> None:
        self.live: list[int] = []
        self.record = 0
        """How many records were read; numbers the replacements."""
        self._builder = builder
        self._indices: dict[str, list[int]] = {}

    def apply(self, operation: Operation) -> list[int]:
        """Apply a change; returns the messages that left the conversation."""
        if isinstance(operation, Add):
            self._add(operation)
            return []
        if isinstance(operation, Replace):
            self._builder.replace(operation.target, operation.blocks, self.record, operation.usage)
            return []
        if isinstance(operation, Truncate):
            first = (self.indices_of(operation.id) or [NONE])[0]
            cut = self.live.index(first) if first in self.live else 0
            dropped, self.live = self.live[cut:], self.live[:cut]
            return dropped
        before, self.live = self.live, operation.indices
        kept = set(operation.indices)
        return [index for index in before if index not in kept]

    def _add(self, operation: Add) -> None:
        message, role, author, live = operation.message, operation.role, operation.author, self.live
        builder, id, parent = self._builder, message.id or None, live[-1] if live else NONE
        if author == "model" and role == "assistant":
            model = message.model if isinstance(message.model, str) else None
            index = builder.add_reply(
                operation.blocks, operation.source, id, parent, message.timestamp, model, id or f"{len(builder)}",
                operation.usage,
            )  # fmt: skip
        else:
            index = builder.add(role, author, operation.blocks, operation.source, id, parent, message.timestamp)
        live.append(index)
        if id is not None:
            self._indices[id] = [index]

    @property
    def last(self) -> int:
        """The last message, or NONE."""
        return self.live[-1] if self.live else NONE

    @property
    def tip(self) -> int | None:
        """The last message, if there is one."""
        return self.live[-1] if self.live else None

    def indices_of(self, id: str) -> list[int] | None:
        """Return the messages with an id; a copy may stand for several."""
        return self._indices.get(id)

    def set_indices(self, id: str, indices: list[int]) -> None:
        """Note that an id refers to messages that are already in the session."""
        self._indices[id] = indices

    def dropped_since(self, first: int, end: int) -> list[int]:
        """Return the messages of a range that are not in the conversation."""
        live = set(self.live)
        return [index for index in range(first, end) if index not in live]
