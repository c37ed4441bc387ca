"""Calls of Claude Code that were stopped while they ran, which may look like rejections, errors, or nothing at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unspool.core.model import ToolResult
from unspool.testing import ClaudeLog, call

REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."
MARKER = [{"type": "text", "text": "[Request interrupted by user for tool use]"}]


def called(tool: str = "Bash", version: str = "2.1.37") -> ClaudeLog:
    log = ClaudeLog(version=version)
    log.user("go")
    log.model(call("one", tool, command="make", questions=[]))
    return log


def tick(log: ClaudeLog, kind: str, of: str = "one", **data: Any) -> None:
    """Add a record that a call runs."""
    last = log.last
    log.line("progress", None, data={"type": kind, **data}, toolUseID="tick", parentToolUseID=of)
    log.last = last


@pytest.mark.parametrize(
    ("tool", "kind", "during"),
    [
        ("Bash", "bash_progress", "tool"),
        ("TaskOutput", "waiting_for_task", "tool"),
        ("Task", "agent_progress", "subagent"),
        ("mcp__tiny__wait", "mcp_progress", "tool"),
    ],
)
@pytest.mark.parametrize("marked", [True, False])
def test_a_running_call_is_interrupted(tmp_path: Path, tool: str, kind: str, during: str, marked: bool) -> None:
    """It has the text of a refusal, but nobody was asked any more. A marker may be missing."""
    log = called(tool)
    tick(log, kind)
    log.result("one", REFUSED, error=True)
    if marked:
        log.user(MARKER)
    log.user("next")
    session = log.load(tmp_path)
    assert session.rejections == []
    (interruption,) = session.interruptions
    assert (interruption.during, interruption.tool_use_ids) == (during, ["one"])
    assert interruption.confidence == (1.0 if marked else 0.9)
    assert [use.outcome for use in session.tool_calls()] == ["interrupted"]


def test_hooks_are_no_sign_that_a_call_runs(tmp_path: Path) -> None:
    """They run before the question."""
    log = called()
    tick(log, "hook_progress", hookName="PreToolUse:Bash")
    log.result("one", REFUSED, error=True)
    log.user(MARKER)
    session = log.load(tmp_path)
    assert (len(session.rejections), session.interruptions) == (1, [])


def test_a_refusal_beside_a_running_call(tmp_path: Path) -> None:
    """The call that was asked about is rejected; the other one is cancelled with it."""
    log = called()
    log.model(call("two", "Edit", file_path="a.txt"), reply="2")
    tick(log, "bash_progress")
    log.result("one", REFUSED, error=True)
    log.result("two", REFUSED, error=True)
    log.user(MARKER)
    session = log.load(tmp_path)
    (rejection,) = session.rejections
    assert (rejection.tool_use_id, rejection.sibling_tool_use_ids) == ("two", ["one"])


@pytest.mark.parametrize("tool", ["AskUserQuestion", "ExitPlanMode"])
def test_a_tool_that_only_asks_is_refused(tmp_path: Path, tool: str) -> None:
    """Whatever the marker says."""
    log = called(tool, "2.1.219")
    log.result("one", REFUSED, error=True)
    log.user(MARKER, interruptedMessageId="msg_1")
    log.user("next")
    session = log.load(tmp_path)
    assert (len(session.rejections), session.interruptions) == (1, [])


@pytest.mark.parametrize("tool", ["Task", "Agent"])
def test_a_sub_agent_that_was_stopped_without_a_marker(tmp_path: Path, tool: str) -> None:
    """The result says so."""
    log = called(tool, "2.1.63")
    log.result("one", "[Request interrupted by user for tool use]", error=True)
    log.user("next")
    log.model("fine")
    session = log.load(tmp_path)
    (interruption,) = session.interruptions
    assert (interruption.during, interruption.message_index, interruption.tool_use_ids) == ("subagent", 2, ["one"])
    assert [agent.status for agent in session.subagents] == ["interrupted"]


@pytest.mark.parametrize("text", ["MCP error -32001: AbortError: This operation was aborted", "canceled"])
def test_errors_of_tools_that_were_stopped(tmp_path: Path, text: str) -> None:
    """With a marker they are interruptions, otherwise errors (2.1.63)."""
    log = called("WebFetch", "2.1.63")
    log.result("one", text, error=True)
    log.user(MARKER)
    session = log.load(tmp_path)
    assert ([i.tool_use_ids for i in session.interruptions], session.errors) == ([["one"]], [])
    log = called("WebFetch", "2.1.63")
    log.result("one", text, error=True)
    log.model("it failed")
    session = log.load(tmp_path)
    assert ([error.text for error in session.errors], session.interruptions) == ([text], [])


def several(log: ClaudeLog, *given: tuple[str, dict[str, Any]], **fields: Any) -> None:
    """Add a record with several results, each with its own details."""
    blocks = [{"type": "tool_result", "tool_use_id": id, "content": "done", "toolUseResult": own} for id, own in given]
    log.user(blocks, **fields)


@pytest.mark.parametrize("stopped", ["one", "two"])
def test_one_of_several_results_in_a_record_was_stopped(tmp_path: Path, stopped: str) -> None:
    """Each result has its own details, which say nothing about the others."""
    log = ClaudeLog()
    log.user("go")
    log.model(call("one", command="make"), call("two", command="ls"))
    several(log, *((id, {"stdout": "", "interrupted": id == stopped}) for id in ("one", "two")))
    session = log.load(tmp_path)
    outcomes = {block.call_id: block.outcome for block in session.messages[-1].blocks if isinstance(block, ToolResult)}
    assert outcomes == {id: "interrupted" if id == stopped else "ok" for id in ("one", "two")}


def test_the_results_of_two_sub_agents_in_a_record(tmp_path: Path) -> None:
    """Each names its own sub-agent, also if the record has details of its own."""
    log = ClaudeLog()
    log.user("go")
    log.model(call("one", "Task", prompt="look"), call("two", "Task", prompt="see"))
    details = {"one": {"agentId": "a1", "status": "completed"}, "two": {"agentId": "b2", "status": "completed"}}
    several(log, *details.items(), toolUseResult={"agentId": "c3", "status": "completed"})
    session = log.load(tmp_path)
    assert {agent.tool_use_id: agent.agent_id for agent in session.subagents} == {"one": "a1", "two": "b2"}
