"""Lines of Claude Code that come before the lines they follow from: parents and calls are found in either order."""

from __future__ import annotations

from pathlib import Path

from unspool.core import model as m
from unspool.core.session import Session
from unspool.testing import ClaudeLog, call

REASON = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell you how to proceed, "
    "the user said:\nnot this one"
)


def answered_early(error: bool = False) -> ClaudeLog:
    """Two parallel calls; the result of the second one comes before the call itself."""
    log = ClaudeLog(version="2.1.126")
    log.user("go", "prompt")
    log.model(call("one"), name="one", reply="r")
    log.result("two", REASON if error else "2", "early", parent="two", error=error)
    log.model(call("two", command="ls"), name="two", parent="one", reply="r")
    log.result("one", "1", "first", parent="one")
    log.model("done", parent="early")
    return log


def calls_in_context(session: Session, index: int) -> list[str]:
    found = [session.messages[place] for place in session.context_at(index).message_indices]
    return [block.id for message in found for block in message.blocks if isinstance(block, m.ToolCall)]


def test_a_result_before_its_call(tmp_path: Path) -> None:
    """The call is finished, and its result is found from it."""
    session = answered_early().load(tmp_path)
    assert (session.orphans, session.branches, session.problems, session.info.status) == ([], [], [], "complete")
    assert [(use.call.id, use.result_index, use.outcome) for use in session.tool_calls()] == [
        ("one", 4, "ok"),
        ("two", 2, "ok"),
    ]
    assert calls_in_context(session, 5) == ["one", "two"]


def test_a_rejection_before_its_call(tmp_path: Path) -> None:
    """It has the tool and the command of the call all the same."""
    session = answered_early(error=True).load(tmp_path)
    (rejection,) = session.rejections
    assert (rejection.tool_name, rejection.reason, rejection.message_index) == ("Bash", "not this one", 2)
    assert rejection.action is not None
    assert rejection.action.command == "ls"
    assert session.orphans == []


def test_a_call_that_asks_is_written_first(tmp_path: Path) -> None:
    """2.1.150 writes it before the parts of its reply that precede it. The order of the reply counts."""
    log = ClaudeLog(version="2.1.150")
    log.user("go", "prompt")
    log.model(call("asks"), name="asks", parent="plain", reply="r")
    log.model("first", name="text", parent="prompt", reply="r")
    log.model(call("plain"), name="plain", parent="text", reply="r")
    log.result("plain", "1", "plain result", parent="plain")
    log.result("asks", "2", "asks result", parent="asks")
    log.model("done")
    session = log.load(tmp_path)
    assert calls_in_context(session, 6) == ["plain", "asks"]
    assert [session.context_at(part).message_indices for part in (1, 2, 3)] == [[0]] * 3
    assert session.orphans == []


def test_an_answer_before_its_prompt(tmp_path: Path) -> None:
    """2.1.63 to 2.1.219 write the first answer before the lines above it."""
    log = ClaudeLog(version="2.1.219")
    log.model("hello", name="answer", parent="attachment")
    log.user("hi", "prompt", None)
    log.line("attachment", "attachment", attachment={"type": "skill_listing", "content": "skills"})
    log.user("next", parent="answer")
    log.model("done")
    session = log.load(tmp_path)
    assert session.context_at(0).message_indices == [1, 2]
    assert session.context_at(4).message_indices == [1, 2, 0, 3]
    assert (session.branches, session.problems) == ([], [])
