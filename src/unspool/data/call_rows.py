"""Makes the rows of tool calls with their results, from messages in order."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from ..agents.base import Agent
from ..core import model as m
from ..core.session import Session
from .batches import Row
from .source_locations import SourceLocations

_MILLISECOND = timedelta(milliseconds=1)


class _Call(msgspec.Struct, frozen=True, gc=False):
    """A call that has no result yet."""

    message: int
    begin: Row
    """The first columns of its row."""
    at: datetime | None


class _Result(msgspec.Struct, frozen=True, gc=False):
    """The last result of an id, for calls that follow it."""

    message: int
    outcome: m.Outcome
    exit_code: int | None
    at: datetime | None
    content: str | None
    """None if it already belongs to a call."""


class CallRows:
    """Pairs the calls and results of one session.

    As in `Session.tool_calls`, a call has the first result of its id that follows it, or else the last one before it.
    """

    def __init__(
        self, locations: SourceLocations, head: Session, agent: Agent | None, rows: dict[str, list[Row]]
    ) -> None:
        self._locations = locations
        self._agent = agent
        self._rows = rows.get("tool_calls")
        self._files = rows.get("files_touched")
        self._open: dict[str, list[_Call]] = {}
        self._results: dict[str, _Result] = {}
        self._rejections: dict[str, list[m.Rejection]] = {}
        for rejection in head.rejections:
            self._rejections.setdefault(rejection.tool_use_id or "", []).append(rejection)
        self._interrupted = {id for event in head.interruptions for id in event.tool_use_ids}
        self._changed = {change.tool_use_id for change in head.input_changes}
        self._orphans = {(orphan.message_index, orphan.tool_use_id): orphan.reason for orphan in head.orphans}

    def add(self, messages: Iterable[m.Message], numbers: Iterable[int]) -> None:
        """Add the calls and results of messages. `numbers` are the messages' numbers in `SourceLocations`."""
        for message, location in zip(messages, numbers, strict=True):
            results = []
            for position, block in enumerate(message.blocks):
                if type(block) is m.ToolCall:
                    self._add_call(message, position, block, location)
                elif type(block) is m.ToolResult:
                    results.append(block)
            # Results come second: one in the same message belongs to the calls of that message, whatever their order.
            for result in results:
                self._add_result(message, result)

    def _add_call(self, message: m.Message, position: int, call: m.ToolCall, location: int) -> None:
        agent = self._agent
        if self._files is not None and agent is not None:
            for touched in agent.touched(call.name, call.raw_input):
                self._files.append((message.index, position, call.id, call.name, touched, location))
        if self._rows is not None:
            command, path = agent.subject(call.name, call.raw_input) if agent is not None else (None, None)
            begin = (
                message.index, position, call.id, call.name, bytes(call.raw_input), command, path,
                message.timestamp, message.branch, message.inherited,
            )  # fmt: skip
            waiting = self._open.setdefault(call.id, [])
            waiting.append(_Call(message.index, begin, message.timestamp))

    def _add_result(self, message: m.Message, block: m.ToolResult) -> None:
        if self._rows is None:
            return
        id, at = block.call_id, message.timestamp
        calls = self._open.pop(id, ())
        for call in calls:
            self._write(id, call, _Result(message.index, block.outcome, block.exit_code, at, block.content))
        content = None if calls else block.content
        self._results[id] = _Result(message.index, block.outcome, block.exit_code, at, content)

    def finish(self) -> None:
        """Write the rows of calls without a result after them."""
        for id, calls in self._open.items():
            for call in calls:
                self._write(id, call, self._results.get(id))
        self._open.clear()

    def _write(self, id: str, call: _Call, result: _Result | None) -> None:
        assert self._rows is not None
        rejection = self._rejection(id, call.message)
        approval = "rejected" if rejection is not None else "changed" if id in self._changed else None
        by, reason = (None, None) if rejection is None else (rejection.by, rejection.reason)
        orphan, location = self._orphans.get((call.message, id)), self._locations.of_message(call.message)
        values = self._result_values(id, call, result, rejection)
        self._rows.append(call.begin + values + (approval, by, reason, orphan, location))

    def _result_values(self, id: str, call: _Call, result: _Result | None, rejection: object) -> tuple[Any, ...]:
        """Return the index of the result's message, its text, the outcome, the exit code and the duration."""
        if result is None:
            outcome = "interrupted" if id in self._interrupted else "unknown"
            return None, None, "rejected" if rejection is not None else outcome, None, None
        is_timed = call.at is not None and result.at is not None
        duration = (result.at - call.at) // _MILLISECOND if is_timed else None  # type: ignore[operator]
        outcome = "rejected" if rejection is not None else result.outcome
        return result.message, result.content, outcome, result.exit_code, duration

    def _rejection(self, id: str, message: int) -> m.Rejection | None:
        found = self._rejections.get(id)
        if found is None:
            return None
        after = next((rejection for rejection in found if rejection.message_index >= message), None)
        return after if after is not None else found[-1]
