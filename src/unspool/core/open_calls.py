"""Tool calls that are waiting for their result."""

from __future__ import annotations

from collections.abc import Iterator
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

    __slots__ = ("_closed", "_count_in", "_early", "_repeated", "open")

    def __init__(self) -> None:
        self.open: dict[str, Call] = {}
        """Calls without a result, by id: the latest if several messages have a call with the same id."""
        self._repeated: dict[str, list[Call]] = {}
        """The earlier ones."""
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
        earlier = self.open.get(call.id)
        self.open[call.id] = made
        if earlier is not None:
            if earlier.message == index:
                return True
            self._repeated.setdefault(call.id, []).append(earlier)
        self._count_in[index] = self._count_in.get(index, 0) + 1
        return True

    def close(self, call_id: str, count: int) -> tuple[Call | None, list[int]]:
        """Return the call that a result belongs to, and the messages that have no open call any more.

        A result answers all open calls with its id. `count` is the number of messages so far. The input of a call is
        only available the first time.
        """
        call = self.open.pop(call_id, None)
        if call is None:
            known = self._closed.get(call_id)
            if known is None:
                self._early.put(call_id, True)
            return known, []
        self._closed.put(call_id, Call(call.message, call.name, _NO_INPUT, call.timestamp, count))
        if not self._repeated:
            return call, [call.message] if self._is_last(call.message) else []
        answered = [call, *self._repeated.pop(call_id, ())]
        return call, [each.message for each in answered if self._is_last(each.message)]

    def _is_last(self, message: int) -> bool:
        """Count an answered call of a message; returns whether it was the last open one."""
        left = self._count_in[message] - 1
        if left:
            self._count_in[message] = left
        else:
            del self._count_in[message]
        return not left

    def unanswered(self) -> Iterator[tuple[str, Call]]:
        """Yield all calls without a result, with their ids; an id appears again if several messages have it."""
        for call_id, call in self.open.items():
            for earlier in self._repeated.get(call_id, ()):
                yield call_id, earlier
            yield call_id, call

    def find(self, call_id: str, by: datetime | None = None) -> Call | None:
        """Return a call by its id, with or without a result.

        If several messages have a call with this id, the latest of them, or the latest that was made `by` a moment.
        """
        known = self.open.get(call_id) or self._closed.get(call_id)
        if by is not None and known is not None and _is_later(known, by):
            earlier = self._repeated.get(call_id, ())
            return next((call for call in reversed(earlier) if not _is_later(call, by)), known)
        return known

    def forget_closed(self) -> None:
        """Free the memory of calls that have a result."""
        self._closed = Recent()
        self._early = Recent()


def _is_later(call: Call, moment: datetime) -> bool:
    return call.timestamp is not None and call.timestamp > moment
