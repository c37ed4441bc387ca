"""Splits a session into turns: each response of the model with its calls and results, and each other message."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property

import msgspec

from ..core import model as m
from ..core.session import Session, ToolUse


class Turn(msgspec.Struct, kw_only=True, dict=True):
    """A response of the model, or another message. A result belongs to the turn of its call."""

    messages: list[m.Message]
    """The messages of the response, or the one message."""
    blocks: list[m.Block]
    """The blocks of these messages, without results of other turns' calls."""
    uses: list[ToolUse]
    """The calls of the turn, with their results."""

    @property
    def first(self) -> m.Message:
        """The first message."""
        return self.messages[0]

    @property
    def branch(self) -> int:
        """The branch that it is on."""
        return self.first.branch

    @cached_property
    def indices(self) -> list[int]:
        """The indices of its messages and of the messages with the results of its calls."""
        results = (use.result_index for use in self.uses if use.result_index is not None)
        return sorted({*(message.index for message in self.messages), *results})

    @property
    def is_response(self) -> bool:
        """Whether the model wrote it."""
        return self.first.role == "assistant" and self.first.author == "model"

    @property
    def timestamp(self) -> datetime | None:
        """The time of the last message, not counting the results of its calls."""
        return next((each.timestamp for each in reversed(self.messages) if each.timestamp is not None), None)

    @property
    def model(self) -> str | None:
        """The model that wrote it."""
        return next((each.model for each in self.messages if each.model is not None), None)

    @property
    def usage(self) -> m.Usage | None:
        """The tokens of the response."""
        return next((each.usage for each in reversed(self.messages) if each.usage is not None), None)

    @property
    def text(self) -> str:
        """All text, without calls, results and reasoning."""
        return "\n\n".join(filter(None, map(text_of, self.blocks)))

    @property
    def thinking(self) -> str:
        """The readable part of the model's reasoning."""
        return "\n\n".join(block.text for block in self.blocks if isinstance(block, m.Thinking) and block.text)

    @property
    def images(self) -> list[m.Image]:
        """The images."""
        return [block for block in self.blocks if isinstance(block, m.Image)]


def text_of(block: m.Block) -> str | None:
    """Return the text of a block; None for calls, results, reasoning and images."""
    match block:
        case m.Text(text=text) | m.Attachment(text=text) | m.CompactionMark(summary=text):
            return text
        case m.InterruptionMark():
            return "[interrupted]"
        case _:
            return None


def turns_of(session: Session) -> Iterator[Turn]:
    """Yield the turns of all branches, in the order of the log."""
    uses: dict[int, list[ToolUse]] = {}
    taken: set[int] = set()
    for use in session.tool_calls():
        uses.setdefault(use.message_index, []).append(use)
        if use.result is not None:
            taken.add(id(use.result))
    parts: dict[int, list[m.Message]] = {}
    for message in session.messages:
        if message.reply is not None and message.reply != message.index:
            parts.setdefault(message.reply, []).append(message)
    first_parts = {message.index for message in session.messages if message.reply in (None, message.index)}
    for message in session.messages:
        if message.index not in first_parts and message.reply in first_parts:
            continue
        messages = [message, *parts.get(message.index, ())] if message.index in first_parts else [message]
        calls = [use for each in messages for use in uses.get(each.index, ())]
        blocks = [block for each in messages for block in each.blocks if id(block) not in taken]
        if blocks or calls or not message.blocks:
            yield Turn(messages=messages, blocks=blocks, uses=calls)


def prompt_tokens(usage: m.Usage) -> int | None:
    """Return the number of all input tokens, cached or not."""
    counts = [count for count in (usage.input, usage.cache_read, usage.cache_write) if count is not None]
    return sum(counts) if counts else None
