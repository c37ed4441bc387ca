"""JSON-RPC in lines: whatever comes, calls end, and nothing grows without a bound."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.runs.drivers.jsonrpc import CallError, Connection, Lines

from ..harness import run


class Other:
    """The other side: it keeps what it hears, and what is said by itself."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.notices: list[tuple[str, dict[str, Any]]] = []
        self.requests: list[tuple[int | str, str, dict[str, Any]]] = []
        self.connection = Connection(lambda line: self.heard.append(json.loads(line)), self)

    def notice(self, method: str, params: dict[str, Any]) -> None:
        self.notices.append((method, params))

    def request(self, id: int | str, method: str, params: dict[str, Any]) -> None:
        self.requests.append((id, method, params))

    def say(self, **message: Any) -> None:
        self.connection.take(json.dumps(message).encode())


@given(st.lists(st.binary(max_size=9).filter(lambda line: b"\n" not in line)), st.integers(min_value=1, max_value=7))
def test_however_the_bytes_come_the_lines_are_the_same(lines: list[bytes], size: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    cut = Lines()
    found = [line for place in range(0, len(data), size) for line in cut.feed(data[place : place + size])]
    assert found == [line for line in lines if line]


def test_a_line_that_is_too_long_is_passed_over() -> None:
    lines = Lines(longest=5)
    assert lines.feed(b"123456") == []
    assert lines.feed(b"7\nok\n") == [b"ok"]
    assert lines.passed_over == 1


def test_a_call_gets_its_answer() -> None:
    async def body() -> None:
        other = Other()
        first = asyncio.create_task(other.connection.call("one", {"a": 1}))
        second = asyncio.create_task(other.connection.call("two"))
        await asyncio.sleep(0)
        assert other.heard == [{"id": 1, "method": "one", "params": {"a": 1}}, {"id": 2, "method": "two", "params": {}}]
        other.say(id=2, error={"code": -32600, "message": "not so"})
        other.say(id=1, result={"b": 2})
        other.say(id=1, result={"again": True})
        other.say(id=77, result={})
        assert await first == {"b": 2}
        with pytest.raises(CallError, match="two: not so") as caught:
            await second
        assert (caught.value.message, caught.value.code) == ("not so", -32600)

    run(body())


def test_a_call_ends_when_nobody_answers_and_when_nobody_is_there() -> None:
    async def body() -> None:
        other = Other()
        with pytest.raises(CallError, match=r"no answer within 0\.01 s"):
            await other.connection.call("late", seconds=0.01)
        waiting = asyncio.create_task(other.connection.call("one"))
        await asyncio.sleep(0)
        other.connection.take(b"")
        for call in (waiting, other.connection.call("two")):
            with pytest.raises(CallError, match="the program has ended"):
                await call

    run(body())


def test_both_sides_ask() -> None:
    other = Other()
    other.connection.take(b"WARNING: no message")
    other.connection.take(b"[1]")
    other.say(method="happened", params={"x": 1})
    other.say(method="happened")
    other.say(method="may I", id="r1", params={})
    other.say(method="may I", id=0)
    assert other.notices == [("happened", {"x": 1}), ("happened", {})]
    assert other.requests == [("r1", "may I", {}), (0, "may I", {})]
    other.connection.reply("r1", {"yes": True})
    other.connection.refuse(0, "never")
    other.connection.notify("done")
    assert other.heard == [
        {"id": "r1", "result": {"yes": True}},
        {"id": 0, "error": {"code": -32601, "message": "never"}},
        {"method": "done"},
    ]
