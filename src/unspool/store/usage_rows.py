"""What is counted for statistics: prompts, replies with their tokens, and results of calls."""

from __future__ import annotations

from datetime import datetime
from itertools import repeat

import msgspec

from ..core import model as m
from .database import Database
from .indexed_text import ToolNameOf
from .rows import NOTHING

CountRow = tuple[int, int, str, str, str | int, int]
"""A prompt or the result of a call: message, position in it, kind, tool, outcome, seconds."""
TokenRow = tuple[int, int, str, str, int, int, int, int, int, int]
"""Spent tokens: message, position in it, kind, model, seconds; input, output, cache read and written, reasoning."""

_NO_MESSAGE = -1
"""The message of tokens that belong to the session as a whole."""
_TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")


class UsageRows(msgspec.Struct, array_like=True):
    """The countable content of some messages. Unknown values are empty or `NOTHING`."""

    counts: list[CountRow] = []
    tokens: list[TokenRow] = []

    def add(self, message: m.Message, tool_name_of: ToolNameOf, at: int) -> None:
        """Count a message, unless it is counted with the session this one was forked from."""
        if message.inherited:
            return
        index, position = message.index, 0
        if message.author == "human" and message.role == "user":
            self.counts.append((index, position, "prompt", "", NOTHING, at))
            position += 1
        if message.usage is not None:
            self.add_tokens(index, position, "reply", message.model, at, message.usage)
            position += 1
        for block in message.blocks:
            if type(block) is m.ToolResult:
                self.counts.append((index, position, "call", tool_name_of(block.call_id) or "", block.outcome, at))
                position += 1

    def add_tokens(self, message: int, position: int, kind: str, model: str | None, at: int, usage: m.Usage) -> None:
        """Count tokens."""
        given = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning)
        input, output, read, written, reasoning = (NOTHING if count is None else count for count in given)
        self.tokens.append((message, position, kind, model or "", at, input, output, read, written, reasoning))


class UsageTable:
    """The stored usage rows (table `act`)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, session: int, usage: UsageRows) -> None:
        """Add rows."""
        ids = self._database.names.ids
        if usage.counts:
            messages, positions, kinds, tools, outcomes, times = zip(*usage.counts, strict=True)
            names = map(ids({*tools}).__getitem__, tools)
            rows = zip(repeat(session), messages, positions, kinds, names, outcomes, times)
            columns = "session, message, place, kind, name, outcome, at"
            self._database.insert("act", columns, rows, sparse="name, outcome, at")
        if usage.tokens:
            messages, positions, kinds, models, *rest = zip(*usage.tokens, strict=True)
            names = map(ids({*models}).__getitem__, models)
            rows = zip(repeat(session), messages, positions, kinds, names, *rest)
            sparse = f"name, at, {', '.join(_TOKENS)}"
            self._database.insert("act", f"session, message, place, kind, {sparse}", rows, sparse=sparse)

    def remove(self, session: int, message: int) -> None:
        """Remove the rows of one message."""
        self._database.rows("DELETE FROM act WHERE session = ? AND message = ?", session, message)

    def remove_from(self, session: int, first: int) -> None:
        """Remove the rows of all messages from one on."""
        self._database.rows("DELETE FROM act WHERE session = ? AND message >= ?", session, first)

    def set_remainder(self, session: int, total: m.Usage, model: str | None, at: float | None) -> None:
        """Add the tokens of a session that belong to none of its messages, such as those of a compaction."""
        self.remove(session, _NO_MESSAGE)
        sums = ", ".join(f"coalesce(sum({name}), 0)" for name in _TOKENS)
        (known,) = self._database.rows(f"SELECT {sums} FROM act WHERE session = ?", session)
        rest = [(getattr(total, name) or 0) - int(value) for name, value in zip(_TOKENS, known, strict=True)]
        if any(rest):
            usage = UsageRows()
            usage.add_tokens(_NO_MESSAGE, 0, "other", model, whole_seconds(at), m.Usage(*rest))
            self.add(session, usage)

    def prompts(self, session: int) -> list[int]:
        """The indices of the messages that a person wrote."""
        sql = "SELECT message FROM act WHERE session = ? AND kind = 'prompt' ORDER BY message"
        return [row[0] for row in self._database.rows(sql, session)]

    def first_results(self, session: int) -> list[int]:
        """The indices of the messages with the first result of each tool."""
        sql = "SELECT min(message) FROM act WHERE session = ? AND kind = 'call' GROUP BY name"
        return sorted({row[0] for row in self._database.rows(sql, session)})


def whole_seconds(at: float | datetime | None) -> int:
    """A time for the bulk tables, which store whole seconds."""
    if isinstance(at, datetime):
        at = at.timestamp()
    return NOTHING if at is None else int(at)
