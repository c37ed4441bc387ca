"""Parallel tool calls of Gemini CLI, and chats that are resumed in another session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unspool.agents.gemini.outcomes import judge
from unspool.agents.gemini.schema import GeminiToolCall
from unspool.agents.gemini.tool_calls import in_order
from unspool.core import model as m
from unspool.core.session import Session
from unspool.testing import GeminiLog, texts

DENIED = "[Operation Cancelled] Reason: User denied execution."
QUEUED = "[Operation Cancelled] Reason: User cancelled operation"
STOPPED = "Command was cancelled by user before it could complete."
STAMP = 1_794_836_252_209


def call(name: str, position: int, status: str, text: str) -> dict[str, Any]:
    id = f"{name}__{name}_{STAMP + position}_{position}"
    response = {"error" if status == "cancelled" else "output": text}
    result = [{"functionResponse": {"id": id, "name": name, "response": response}}]
    return {"id": id, "name": name, "args": {"file_path": "a.txt"}, "status": status, "result": result}


def calls_in(session: Session) -> list[str]:
    return [block.name for message in session.messages for block in message.blocks if isinstance(block, m.ToolCall)]


def with_calls(*calls: dict[str, Any]) -> GeminiLog:
    log = GeminiLog()
    log.user("u1", "do it all")
    log.model("g1", "Mixed calls.", list(calls))
    return log


def test_calls_are_in_the_order_of_the_model(tmp_path: Path) -> None:
    """0.61 lists the rejected one last; what was queued behind it was not rejected itself."""
    log = with_calls(
        call("read_file", 0, "success", "alpha"),
        call("read_many_files", 2, "cancelled", QUEUED),
        call("run_shell_command", 3, "cancelled", QUEUED),
        call("replace", 1, "cancelled", DENIED),
    )
    session = log.load(tmp_path)
    assert calls_in(session) == ["read_file", "replace", "read_many_files", "run_shell_command"]
    (rejection,) = session.rejections
    assert (rejection.tool_name, rejection.by, rejection.confidence) == ("replace", "user", 1.0)
    assert [id.rsplit("_", 1)[1] for id in rejection.sibling_tool_use_ids] == ["2", "3"]
    assert session.interruptions == []


def test_a_queued_call_belongs_to_a_rejection_after_it(tmp_path: Path) -> None:
    """Also where the ids do not give the order."""
    calls = [call("read_file", 0, "cancelled", QUEUED), call("replace", 1, "cancelled", DENIED)]
    for number, given in enumerate(calls):
        given["id"] = f"call-{number}"
    (rejection,) = with_calls(*calls).load(tmp_path).rejections
    assert (rejection.tool_use_id, rejection.sibling_tool_use_ids) == ("call-1", ["call-0"])


@pytest.mark.parametrize(
    "ids",
    [
        ["f_1794836252209_1", "f_1794836252209_0", "f_1794836259999_0"],
        ["f_1794836252209_1", "call-0"],
        ["b_1", "a_0"],
    ],
)
def test_other_ids_give_no_order(ids: list[str]) -> None:
    """Calls of several replies in one message, and ids of other forms, stay as they are."""
    assert [given.id for given in in_order([GeminiToolCall(id=id) for id in ids])] == ids


def test_an_interruption_with_one_of_two_calls_finished(tmp_path: Path) -> None:
    """No note says that the request was cancelled; the stopped call does."""
    log = with_calls(
        call("run_shell_command", 0, "cancelled", STOPPED), call("run_shell_command", 1, "success", "done")
    )
    session = log.load(tmp_path)
    (interruption,) = session.interruptions
    assert (interruption.type, interruption.during, interruption.confidence) == ("user", "tool", 0.9)
    assert [id.rsplit("_", 1)[1] for id in interruption.tool_use_ids] == ["0"]
    assert session.rejections == []


def test_a_chat_that_is_resumed_in_another_session(tmp_path: Path) -> None:
    """The list of messages names exactly what is left: the prompt of the new session is gone, the saved ones count."""
    context = {"text": "<session_context>\nThis is the Gemini CLI."}
    saved = [
        {"id": "c1", "type": "user", "content": [{"text": "<session_context>\nBefore."}, {"text": "hello one"}]},
        {"id": "c2", "type": "gemini", "content": [{"text": "Answer to one."}]},
    ]
    log = GeminiLog()
    log.change(messages=[{"id": "s", "type": "user", "content": [context]}])
    log.user("u1", "hello four")
    log.model("g1", "Answer to four.")
    for message in saved:
        log.record(message)
    log.change(messages=saved)
    log.user("u2", "hello five")
    log.model("g2", "Answer to five.")
    session = log.load(tmp_path)
    before = session.context_at(len(session.messages) - 1)
    assert texts(session, before.message_indices)[1:] == ["hello one", "Answer to one.", "hello five"]
    said = [texts(session, [message])[0] for message in session.messages if message.author == "human"]
    assert said == ["hello four", "hello one", "hello five"]


def test_a_chat_with_the_same_session_context(tmp_path: Path) -> None:
    """Only its prompt is new."""
    context = {"text": "<session_context>\nThis is the Gemini CLI."}
    saved = [{"id": "c1", "type": "user", "content": [context, {"text": "hello one"}]}]
    log = GeminiLog()
    log.change(messages=[{"id": "s", "type": "user", "content": [context]}])
    log.user("u1", "hello four")
    log.model("g1", "Answer to four.")
    log.record(saved[0])
    log.change(messages=saved)
    log.user("u2", "hello five")
    log.model("g2", "Answer to five.")
    session = log.load(tmp_path)
    assert sum(message.author == "harness" for message in session.messages) == 1
    before = session.context_at(len(session.messages) - 1)
    assert [session.messages[index].author for index in before.message_indices] == ["harness", "human", "human"]


@pytest.mark.parametrize(
    ("text", "outcome", "code"),
    [
        ("Output: fine\nExit Code: 0", "ok", 0),
        ("Exit Code: 2\nOutput: bad", "error", 2),
        ("Output: the Exit Code: 3 is in the text", "ok", None),
        ("Exit Code: (none)\nOutput: Exit Code: 4\nExit Code: -15", "error", -15),
    ],
)
def test_exit_code_is_at_the_start_of_a_line(text: str, outcome: str, code: int | None) -> None:
    assert judge("success", text, "run_shell_command")[:3] == (outcome, None, code)
