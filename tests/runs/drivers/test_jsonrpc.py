"""JSON-RPC in lines: calls always end, and both sides can call."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from unspool.runs.drivers.jsonrpc import CallError, RpcConnection

from ..harness import run


class Peer:
    """The other side of a connection: it keeps what it receives."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.notifications: list[tuple[str, dict[str, Any]]] = []
        self.requests: list[tuple[int | str, str, dict[str, Any]]] = []
        self.connection = RpcConnection(lambda line: self.received.append(json.loads(line)), self)

    def handle_notification(self, method: str, params: dict[str, Any]) -> None:
        self.notifications.append((method, params))

    def handle_request(self, id: int | str, method: str, params: dict[str, Any]) -> None:
        self.requests.append((id, method, params))

    def send(self, **message: Any) -> None:
        self.connection.receive(json.dumps(message).encode())


def test_a_call_gets_its_response() -> None:
    """Responses may come in any order; a second response, or one to no call, is ignored."""

    async def body() -> None:
        peer = Peer()
        first = asyncio.create_task(peer.connection.call("one", {"a": 1}))
        second = asyncio.create_task(peer.connection.call("two"))
        await asyncio.sleep(0)
        assert peer.received == [
            {"id": 1, "method": "one", "params": {"a": 1}},
            {"id": 2, "method": "two", "params": {}},
        ]
        peer.send(id=2, error={"code": -32600, "message": "not so"})
        peer.send(id=1, result={"b": 2})
        peer.send(id=1, result={"again": True})
        peer.send(id=77, result={})
        assert await first == {"b": 2}
        with pytest.raises(CallError, match="two: not so") as caught:
            await second
        assert (caught.value.message, caught.value.code) == ("not so", -32600)

    run(body())


def test_a_call_ends_when_nobody_answers_and_when_the_process_has_exited() -> None:
    """No call waits forever."""

    async def body() -> None:
        peer = Peer()
        with pytest.raises(CallError, match=r"no response within 0\.01 s"):
            await peer.connection.call("late", seconds=0.01)
        pending = asyncio.create_task(peer.connection.call("one"))
        await asyncio.sleep(0)
        peer.connection.receive(b"")
        for call in (pending, peer.connection.call("two")):
            with pytest.raises(CallError, match="the process has exited"):
                await call

    run(body())


def test_both_sides_can_ask() -> None:
    """Requests and notifications are distinguished, and other lines are ignored."""
    peer = Peer()
    peer.connection.receive(b"WARNING: no message")
    peer.connection.receive(b"[1]")
    peer.send(method="happened", params={"x": 1})
    peer.send(method="happened")
    peer.send(method="may I", id="r1", params={})
    peer.send(method="may I", id=0)
    peer.send(method="may I", id=1, params={"text": "cut \ud83d"})
    assert peer.notifications == [("happened", {"x": 1}), ("happened", {})]
    assert peer.requests == [
        ("r1", "may I", {}),
        (0, "may I", {}),
        (1, "may I", {"text": "cut \ufffd"}),
    ]
    peer.connection.reply("r1", {"yes": True})
    peer.connection.reject(0, "never")
    peer.connection.notify("done")
    assert peer.received == [
        {"id": "r1", "result": {"yes": True}},
        {"id": 0, "error": {"code": -32601, "message": "never"}},
        {"method": "done"},
    ]
