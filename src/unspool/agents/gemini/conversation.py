"""The conversation as Gemini CLI edits it: an append-only log of additions, replacements, truncations and resets.

The log only grows, but the conversation does not: the agent rewrites a message to complete it, drops the last messages,
and replaces the whole list. Messages that leave the conversation stay in the session, as branches.
"""

from __future__ import annotations

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import NONE
from .schema import GeminiMessage


class Conversation:
    """The messages that are in the conversation now, by their index in the session."""

    def __init__(self, builder: SessionBuilder) -> None:
        self.live: list[int] = []
        self.indices: dict[str, list[int]] = {}
        """The messages with each id; the id of a copy may refer to several."""
        self._replacements = 0
        self._builder = builder

    def add(
        self,
        message: GeminiMessage,
        source: m.Source,
        role: m.Role,
        author: m.Author,
        blocks: list[m.Block],
        usage: m.Usage | None = None,
    ) -> int:
        """Append a message, and return its index."""
        builder, live, id, at = self._builder, self.live, message.id or None, message.timestamp
        parent = live[-1] if live else NONE
        if author == "model" and role == "assistant":
            model = message.model if isinstance(message.model, str) else None
            index = builder.add_reply(blocks, source, id, parent, at, model, id or f"{len(builder)}", usage)
        else:
            index = builder.add(role, author, blocks, source, id, parent, at)
        live.append(index)
        if id is not None:
            self.indices[id] = [index]
        return index

    def replace(self, index: int, blocks: list[m.Block], usage: m.Usage | None = None) -> None:
        """Give a message new content."""
        # One record may replace the content of a message twice.
        self._replacements += 1
        self._builder.replace(index, blocks, self._replacements, usage)

    def truncate(self, id: str) -> list[int]:
        """Drop a message and all after it, or all messages if it is not in the conversation; returns those."""
        first = self.indices.get(id, [NONE])[0]
        cut = self.live.index(first) if first in self.live else 0
        dropped, self.live = self.live[cut:], self.live[:cut]
        return dropped

    def reset(self, indices: list[int]) -> list[int]:
        """Continue with exactly these messages; returns the dropped ones."""
        before, self.live = self.live, indices
        kept = set(indices)
        return [index for index in before if index not in kept]

    @property
    def last(self) -> int:
        """The last message, or NONE."""
        return self.live[-1] if self.live else NONE

    @property
    def tip(self) -> int | None:
        """The last message, or None."""
        return self.live[-1] if self.live else None

    def dropped_since(self, first: int, end: int) -> list[int]:
        """Return the messages of a range that are not in the conversation."""
        live = set(self.live)
        return [index for index in range(first, end) if index not in live]
