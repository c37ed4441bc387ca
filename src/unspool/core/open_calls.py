"""Tool calls that are waiting for their result."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from . import model as m
from .recent import Recent

_NO_INPUT = msgspec.Raw(b"null")


class Call(NamedTuple):
    """A tool call."""

    message: int
    name: str
    raw_input: msgspec.Raw
    timestamp: datetime | None
    ended: int | None = None
    """The number of messages when its result was read."""


class OpenCalls:
    """The calls without a result, and the recent ones that have one."""

    __slots__ = ("_closed", "_count_in", "_early", "open")

    def __init__(self) -> None:
        self.open: dict[str, Call] = {}
        """Calls without a result, by id."""
        self._count_in: dict[int, int] = {}
        self._closed: Recent[str, Call] = Recent()
        self._early: Recent[str, bool] = Recent()

    def add(self, index: int, call: m.ToolCall, timestamp: datetime | None) -> bool:
        """Add a call made in a message; returns whether it is open: a log may have the result before the call."""
        made = Call(index, call.name, call.raw_input, timestamp)
        if self._early.new and self._early.get(call.id):
            self._early.put(call.id, False)
            self._closed.put(call.id, made)
            return False
        self.open[call.id] = made
        self._count_in[index] = self._count_in.get(index, 0) + 1
        return True

    def close(self, call_id: str, count: int) -> tuple[Call | None, bool]:
        """Return the call that a result belongs to, and whether it was the last open one of its message.

        `count` is the number of messages so far. The input of a call is only available the first time.
        """
        call = self.open.pop(call_id, None)
        if call is None:
            known = self._closed.get(call_id)
            if known is None:
                self._early.put(call_id, True)
            return known, False
        self._closed.put(call_id, Call(call.message, call.name, _NO_INPUT, call.timestamp, count))
        left = self._count_in[call.message] - 1
        self._count_in[call.message] = left
        if not left:
            del self._count_in[call.message]
        return call, not left

    def find(self, call_id: str) -> Call | None:
        """Return a call by its id, with or without a result."""
        return self.open.get(call_id) or self._closed.get(call_id)

    def forget_closed(self) -> None:
        """Free the memory of calls that have a result."""
        self._closed = Recent()
        self._early = Recent()
