"""The messages of a run: one order, limits, and accepted once."""

from __future__ import annotations

import pytest

from unspool.core.errors import UsageError
from unspool.runs.errors import ConflictError
from unspool.runs.messages import MAX_MESSAGE_LENGTH, MAX_WAITING_MESSAGES, RunMessages, check_text


def test_messages_keep_their_order_and_are_accepted_once() -> None:
    """A second acceptance, and one of an unknown message, changes nothing."""
    messages = RunMessages()
    for number in range(3):
        messages.add(f"m{number}", "hello", "tab 1")
    assert messages.accept("m1")
    assert not messages.accept("m1")
    assert not messages.accept("unknown")
    assert [(message.id, message.state) for message in messages.latest()] == [
        ("m0", "sent"),
        ("m1", "taken_up"),
        ("m2", "sent"),
    ]
    assert messages.find("m2") is messages.latest()[2]


def test_the_number_of_queued_messages_is_limited() -> None:
    """Once the agent has accepted one, another can be queued."""
    messages = RunMessages()
    for number in range(MAX_WAITING_MESSAGES):
        messages.add(f"m{number}", "hello", "tab 1")
    with pytest.raises(ConflictError, match="are already waiting"):
        messages.add("more", "hello", "tab 1")
    messages.accept("m0")
    messages.add("more", "hello", "tab 1")
    assert messages.latest()[-1].id == "more"


@pytest.mark.parametrize("text", ["", " \n", "x" * (MAX_MESSAGE_LENGTH + 1)])
def test_empty_and_oversized_messages_are_rejected(text: str) -> None:
    """The limits are in the sentence."""
    with pytest.raises(UsageError, match="between 1 and 1,000,000 characters"):
        check_text(text)
