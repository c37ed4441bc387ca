"""The rows that statistics count: prompts, replies with their tokens, and results of calls."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from itertools import repeat

import msgspec

from ..core import model as m
from ..usage.prices import REQUEST_SIZES
from .database import Database
from .filters import Condition
from .indexed_text import ToolNameOf
from .rows import NOTHING

CountRow = tuple[int, int, str, str, str | int, int]
"""A prompt or the result of a call: message, position in it, kind, tool, outcome, seconds."""
TokenRow = tuple[int, int, str, str, int, int, int, int, int, int, int]
"""Used tokens: message, position in it, kind, model, seconds; input, output, read from cache, written to cache,
reasoning, and written to cache for an hour."""

_NO_MESSAGE = -1
"""The message of tokens that belong to the session as a whole."""
_LAST = 2**31 - 1
SUM_TABLES = ("usage_slot", "tool_outcome")
"""Tables with sums of the rows of `act`."""
SLOT_SECONDS = 900
"""The length of a slot. Every time zone differs from UTC by a multiple of it."""
NO_SLOT = -1
"""The slot of rows without a time; others are multiples of `SLOT_SECONDS`."""
_TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning", "cache_write_1h")


class UsageRows(msgspec.Struct, array_like=True):
    """The rows of some messages. Unknown values are empty or `NOTHING`."""

    counts: list[CountRow] = []
    tokens: list[TokenRow] = []

    def add(self, message: m.Message, tool_name_of: ToolNameOf, at: int) -> None:
        """Add the rows of a message, unless it counts for the session this one was forked from."""
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
        """Add a row with tokens."""
        given = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning, usage.cache_write_1h)
        input, output, read, written, reasoning, hour = (NOTHING if count is None else count for count in given)
        self.tokens.append((message, position, kind, model or "", at, input, output, read, written, reasoning, hour))


class UsageTable:
    """The stored usage rows (table `act`), and their sums (`usage_slot` and `tool_outcome`)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, session: int, usage: UsageRows) -> None:
        """Store rows, and add them to the sums."""
        self.insert(session, usage)
        if added := [*(row[0] for row in usage.counts), *(row[0] for row in usage.tokens)]:
            self._count(session, min(added), max(added))

    def insert(self, session: int, usage: UsageRows) -> None:
        """Store rows without adding them to the sums. `add_to_sums` is much faster if called once for many messages."""
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

    def add_to_sums(self, session: int, first: int) -> None:
        """Add the rows of all messages from `first` on to the sums."""
        self._count(session, first, _LAST)

    def _count(self, session: int, first: int, last: int, sign: int = 1) -> None:
        """Add all rows of a range of messages to the sums, or subtract them."""
        for statement in (_slot_sql(sign), _tool_sql(sign)):
            self._database.rows(statement, session, first, last)

    def remove(self, session: int, message: int) -> None:
        """Remove the rows of one message."""
        self._remove(session, message, message)

    def remove_from(self, session: int, first: int) -> None:
        """Remove the rows of all messages from `first` on."""
        self._remove(session, first, _LAST)

    def _remove(self, session: int, first: int, last: int) -> None:
        self._count(session, first, last, -1)
        self._database.rows("DELETE FROM act WHERE session = ? AND message BETWEEN ? AND ?", session, first, last)
        for table in SUM_TABLES:
            self._database.rows(f"DELETE FROM {table} WHERE session = ? AND count = 0", session)

    def set_remainder(self, session: int, total: m.Usage, model: str | None, at: float | None) -> None:
        """Add the tokens of a session that belong to none of its messages, such as those of a compaction."""
        if self._database.rows("SELECT 1 FROM act WHERE session = ? AND message = ? LIMIT 1", session, _NO_MESSAGE):
            self.remove(session, _NO_MESSAGE)
        sums = ", ".join(f"coalesce(sum({name}), 0)" for name in _TOKENS)
        (known,) = self._database.rows(f"SELECT {sums} FROM act WHERE session = ?", session)
        rest = [(getattr(total, name) or 0) - int(value) for name, value in zip(_TOKENS, known, strict=True)]
        if any(rest):
            usage = UsageRows()
            usage.add_tokens(_NO_MESSAGE, 0, "other", model, whole_seconds(at), m.Usage(*rest))
            self.add(session, usage)

    def largest(self, condition: Condition, limit: int) -> list[int]:
        """The sessions with the most tokens among those that a condition over `usage_slot` allows.

        Each kind of token is weighted by its approximate price relative to input, regardless of the model.
        """
        weight = "sum(output * 5 + input + cache_write * 1.25 + cache_read * 0.1)"
        sql = f"""SELECT session FROM usage_slot WHERE {condition.sql} GROUP BY session
            HAVING {weight} > 0 ORDER BY {weight} DESC, session LIMIT ?"""
        return [int(row[0]) for row in self._database.rows(sql, *condition.values, limit)]

    def prompts(self, session: int) -> list[int]:
        """The indices of the messages that a person wrote."""
        sql = "SELECT message FROM act WHERE session = ? AND kind = 'prompt' ORDER BY message"
        return [row[0] for row in self._database.rows(sql, session)]

    def last_prompt(self, session: int) -> int | None:
        """The index of the last message that a person wrote, found from the end."""
        sql = "SELECT message FROM act WHERE session = ? AND kind = 'prompt' ORDER BY message DESC LIMIT 1"
        return next((int(row[0]) for row in self._database.rows(sql, session)), None)

    def first_results(self, session: int) -> list[int]:
        """The indices of the messages with the first result of each tool."""
        sql = "SELECT min(message) FROM act WHERE session = ? AND kind = 'call' GROUP BY name"
        return sorted({row[0] for row in self._database.rows(sql, session)})


@cache
def _slot_sql(sign: int) -> str:
    """The statement that adds rows of `act` to `usage_slot`. Its values are session, first and last message."""
    requested = "coalesce(input, 0) + coalesce(cache_read, 0) + coalesce(cache_write, 0)"
    over = " + ".join(f"CASE WHEN {requested} > {size} THEN 1 ELSE 0 END" for size in REQUEST_SIZES)
    slot = f"coalesce(CAST(floor(at / {SLOT_SECONDS}.0) AS BIGINT) * {SLOT_SECONDS}, {NO_SLOT})"
    kinds = ", ".join(
        f"{sign} * sum(CASE WHEN kind = '{kind}' THEN 1 ELSE 0 END)" for kind in ("prompt", "call", "reply")
    )
    sums = ", ".join(f"{sign} * coalesce(sum({name}), 0)" for name in _TOKENS)
    counts = ("count", "prompts", "calls", "replies", *_TOKENS)
    updates = ", ".join(f"{name} = usage_slot.{name} + excluded.{name}" for name in counts)
    return f"""INSERT INTO usage_slot (session, slot, model, size, {", ".join(counts)})
        SELECT session, {slot}, CASE WHEN kind IN ('reply', 'other') THEN coalesce(name, 0) ELSE 0 END,
            CASE WHEN kind = 'reply' THEN {over} ELSE 0 END, {sign} * count(*), {kinds}, {sums}
        FROM act WHERE session = ? AND message BETWEEN ? AND ? GROUP BY 1, 2, 3, 4
        ON CONFLICT (session, slot, model, size) DO UPDATE SET {updates}"""


@cache
def _tool_sql(sign: int) -> str:
    """The same for `tool_outcome`."""
    return f"""INSERT INTO tool_outcome (session, tool, outcome, count)
        SELECT session, coalesce(name, 0), coalesce(outcome, ''), {sign} * count(*) FROM act
        WHERE session = ? AND message BETWEEN ? AND ? AND kind = 'call' GROUP BY 1, 2, 3
        ON CONFLICT (session, tool, outcome) DO UPDATE SET count = tool_outcome.count + excluded.count"""


def whole_seconds(at: float | datetime | None) -> int:
    """Convert a time to whole seconds, as the bulk tables store it; `NOTHING` if there is none."""
    if isinstance(at, datetime):
        at = at.timestamp()
    return NOTHING if at is None else int(at)
