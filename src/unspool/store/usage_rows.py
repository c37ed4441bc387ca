"""What can be counted in a message: prompts, replies with their tokens, results of calls."""

from __future__ import annotations

import msgspec

from ..core import model as m
from .rows import NOTHING
from .text_index import NameOf

PlainRow = tuple[int, int, str, str, str | int, int]
"""A prompt, or the result of a call: message, place in it, kind, tool, outcome, seconds."""
PaidRow = tuple[int, int, str, str, int, int, int, int, int, int]
"""What tokens were spent on: message, place in it, kind, model, seconds; input, output, cache read and written,
reasoning."""


class Acts(msgspec.Struct, array_like=True):
    """Everything in some messages that can be counted. What is not known is empty, or `NOTHING`."""

    plain: list[PlainRow] = []
    paid: list[PaidRow] = []

    def add(self, message: m.Message, name_of: NameOf, at: int) -> None:
        """What a message adds to the numbers; what it shares with the session it was forked from is counted there."""
        if message.inherited:
            return
        index, place = message.index, 0
        if message.author == "human" and message.role == "user":
            self.plain.append((index, place, "prompt", "", NOTHING, at))
            place += 1
        if message.usage is not None:
            self.add_paid(index, place, "reply", message.model, at, message.usage)
            place += 1
        for block in message.blocks:
            if type(block) is m.ToolResult:
                self.plain.append((index, place, "call", name_of(block.call_id) or "", block.outcome, at))
                place += 1

    def add_paid(self, message: int, place: int, kind: str, model: str | None, at: int, usage: m.Usage) -> None:
        """Tokens."""
        given = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning)
        input, output, read, written, reasoning = (NOTHING if count is None else count for count in given)
        self.paid.append((message, place, kind, model or "", at, input, output, read, written, reasoning))
