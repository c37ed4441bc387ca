"""How the edits in a log of Gemini CLI change the conversation, without a log."""

from __future__ import annotations

import pytest

from unspool.agents.gemini.conversation import Conversation
from unspool.agents.gemini.schema import GeminiMessage
from unspool.core import model as m
from unspool.core.builder import SessionBuilder
from unspool.core.tree import NONE

SOURCE = m.Source(0, 1, 0, 1)


@pytest.fixture
def builder() -> SessionBuilder:
    return SessionBuilder("gemini", "s1")


@pytest.fixture
def conversation(builder: SessionBuilder) -> Conversation:
    """A prompt, an answer, and a second prompt."""
    made = Conversation(builder)
    for id, role in (("a", "user"), ("b", "assistant"), ("c", "user")):
        add(made, id, role)  # type: ignore[arg-type]
    return made


def add(conversation: Conversation, id: str, role: m.Role = "user") -> int:
    author: m.Author = "human" if role == "user" else "model"
    return conversation.add(GeminiMessage(id=id), SOURCE, role, author, [m.Text(id)])


def test_a_message_follows_the_last_one(builder: SessionBuilder, conversation: Conversation) -> None:
    """Nothing leaves the conversation."""
    assert add(conversation, "d") == 3
    assert conversation.live == [0, 1, 2, 3]
    assert list(builder.columns.parents) == [NONE, 0, 1, 2]
    assert conversation.indices["d"] == [3]


def test_a_replacement_changes_the_content_alone(builder: SessionBuilder, conversation: Conversation) -> None:
    """The message stays where it is, and the number of its last replacement is remembered for a second pass."""
    conversation.replace(1, [m.Text("first")])
    conversation.replace(1, [m.Text("completed")], m.Usage(output=3))
    assert conversation.live == [0, 1, 2]
    assert builder.messages[1].blocks == [m.Text("completed")]
    assert builder.messages[1].usage == m.Usage(output=3)
    assert builder.corrections.final_records == {1: 2}


@pytest.mark.parametrize(("id", "dropped"), [("c", [2]), ("b", [1, 2]), ("a", [0, 1, 2]), ("unknown", [0, 1, 2])])
def test_a_truncation_drops_the_end(conversation: Conversation, id: str, dropped: list[int]) -> None:
    """From the message on, or everything."""
    assert conversation.truncate(id) == dropped
    assert conversation.live + dropped == [0, 1, 2]


def test_the_conversation_continues_after_a_truncation(builder: SessionBuilder, conversation: Conversation) -> None:
    """The next message is attached to the last one that is left."""
    conversation.truncate("b")
    add(conversation, "d")
    assert conversation.live == [0, 3]
    assert builder.columns.parents[3] == 0
    assert conversation.dropped_since(1, 3) == [1, 2]


def test_a_reset_returns_what_is_left_out(conversation: Conversation) -> None:
    """Also if the order changes, or messages return."""
    assert conversation.reset([0, 2]) == [1]
    assert conversation.reset([2, 1]) == [0]
    assert conversation.last == 1
    assert conversation.reset([]) == [2, 1]
    assert conversation.last == NONE


def test_a_copy_stands_for_its_originals(conversation: Conversation) -> None:
    """Going back to before the copy goes back to before the first of them."""
    conversation.indices["copy"] = [1, 2]
    assert conversation.truncate("copy") == [1, 2]
