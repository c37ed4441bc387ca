"""Messages to Codex that it does not get."""

from __future__ import annotations

from typing import Any

from unspool.runs.drivers.codex_messages import CodexMessages, CodexSender, text_input
from unspool.runs.drivers.codex_threads import CodexThreads
from unspool.runs.drivers.jsonrpc import CallError
from unspool.runs.protocol import DriverEvent, MessageReturned, Notice

from ..harness import run


class Refusing:
    """A connection on which every call fails."""

    async def call(self, method: str, _params: dict[str, Any]) -> Any:
        raise CallError(method, "overloaded", -32001)


def test_messages_that_cannot_be_sent_again_are_returned() -> None:
    """A person decides about each of them, and a message that arrives late is not expected any more."""
    events: list[DriverEvent] = []
    messages = CodexMessages()
    sender = CodexSender(Refusing(), CodexThreads(), messages, events.append, lambda *_: None)  # type: ignore[arg-type]
    for id in ("m1", "m2"):
        messages.expect(id)
        messages.start_steering(id, text_input(id))
    run(sender.send_dropped())
    assert [event.message for event in events if isinstance(event, MessageReturned)] == ["m1", "m2"]
    assert ["overloaded" in event.text for event in events if isinstance(event, Notice)] == [True, True]
    assert not messages.has_dropped()
    assert not messages.accept("m1")
