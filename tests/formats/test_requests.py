"""Requests to the two APIs: valid by the types of their libraries, and by the rules that those do not express."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.core.errors import UsageError
from unspool.core.session import Session
from unspool.formats.anthropic_request import anthropic_request
from unspool.formats.conversation import EmptyContextError, Names, conversation_at
from unspool.formats.openai_request import openai_request
from unspool.testing import ClaudeLog, call, load

from .checks import check_anthropic, check_openai, check_requests
from .corpus import recorded_sessions


def test_recordings_make_valid_requests() -> None:
    """Now and before responses, also after compactions and rejections, and in the middle of calls."""
    count = calls = 0
    for session in recorded_sessions():
        starts = [reply.message_indices[0] for reply in session.replies()]
        for index in (None, *starts[::4]):
            calls += check_requests(session, index)
            count += 1
    assert count > 500
    assert calls > 500


def test_a_context_as_requests(tmp_path: Path) -> None:
    """Parallel calls are one message, results come in the order of the calls, and an error is marked."""
    log = ClaudeLog()
    log.user("look around")
    log.model("I look.", call("a b", command="ls"), reply="one")
    log.model(call("c", name="odd name", path="x"), reply="one")
    log.result("c", "no such file", error=True)
    log.result("a b", "file")
    log.model("One file. ", reply="two")
    conversation = conversation_at(load(log.write(tmp_path)))
    request = anthropic_request(conversation)
    check_anthropic(request)
    first, reply, results, last = request["messages"]
    assert first == {"role": "user", "content": [{"type": "text", "text": "look around"}]}
    assert [block.get("id") for block in reply["content"]] == [None, "a_b", "c"]
    assert [(block["tool_use_id"], block.get("is_error")) for block in results["content"]] == [
        ("a_b", None),
        ("c", True),
    ]
    assert last["content"] == [{"type": "text", "text": "One file."}]
    assert [tool["name"] for tool in request["tools"]] == ["Bash", "odd_name"]
    other = openai_request(conversation, model="some-model")
    check_openai(other)
    assert [message["role"] for message in other["messages"]] == ["user", "assistant", "tool", "tool", "assistant"]
    assert other["messages"][1]["tool_calls"][0]["function"] == {"name": "Bash", "arguments": '{"command":"ls"}'}
    assert (request["model"], other["model"]) == ("claude-sonnet-4-5", "some-model")


def unfinished(tmp_path: Path) -> Session:
    log = ClaudeLog()
    log.user("first")
    log.model("Now.", call("open", command="make"))
    return load(log.write(tmp_path))


def test_a_call_without_a_result_is_left_out_with_a_note(tmp_path: Path) -> None:
    conversation = conversation_at(unfinished(tmp_path))
    check_anthropic(anthropic_request(conversation))
    assert not any(turn.calls for turn in conversation.turns)
    assert list(map(str, conversation.left_out)) == ["1 call left out without a result"]


def test_a_prompt_is_added_at_the_end(tmp_path: Path) -> None:
    conversation = conversation_at(unfinished(tmp_path), prompt="go on")
    assert [(turn.role, turn.texts) for turn in conversation.turns] == [
        ("user", ["first"]),
        ("assistant", ["Now."]),
        ("user", ["go on"]),
    ]


def test_a_conversation_begins_with_the_user(tmp_path: Path) -> None:
    """Also if the beginning of the log is lost."""
    log = ClaudeLog()
    log.model("hello", parent=None)
    request = anthropic_request(conversation_at(load(log.write(tmp_path))))
    check_anthropic(request)
    assert len(request["messages"]) == 2


def test_places_without_a_context(tmp_path: Path) -> None:
    session = unfinished(tmp_path)
    with pytest.raises(EmptyContextError, match="nothing in its context before message 0"):
        conversation_at(session, 0)
    for index in (-1, 3):
        with pytest.raises(UsageError, match="--at takes 0 to 2"):
            conversation_at(session, index)


def test_names_are_short_valid_and_distinct() -> None:
    names = Names(5, "call")
    assert [names(text) for text in ("abcdefg", "abcdeXX", "abcdefg", "", "ü")] == [
        "abcde",
        "abc_2",
        "abcde",
        "call",
        "_",
    ]
