"""Sub-agents of Claude Code whose own file is gone: the session repeats what they did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unspool.library import Library
from unspool.testing import ClaudeLog, call, texts


def session_with_agent() -> ClaudeLog:
    """A session with a sub-agent whose own file is gone."""
    log = ClaudeLog(version="2.1.39")
    log.user("count the files")
    log.model(call("task", "Task", prompt="count", description="Count", subagent_type="Explore"), name="asked")
    _progress(log, "user", "count")
    _progress(log, "assistant", [call("ls")])
    _progress(log, "user", [{"type": "tool_result", "tool_use_id": "ls", "content": "a b c"}])
    _progress(log, "assistant", [{"type": "block-of-tomorrow", "words": "kept"}, {"type": "text", "text": "three"}])
    log.result("task", "three", toolUseResult={"status": "completed", "agentId": "a1"})
    log.model("three files")
    return log


def _progress(log: ClaudeLog, kind: str, content: Any) -> None:
    name = f"agent line {len(log.lines)}"
    message: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        usage = {"input_tokens": 10, "output_tokens": 5}
        message |= {"id": f"msg_{name}", "model": "claude-haiku-4-5", "usage": usage}
    inner = {"type": kind, "uuid": log.id(name), "timestamp": log.next_time(), "message": message}
    data = {"type": "agent_progress", "agentId": "a1", "prompt": "count", "message": inner}
    log.line("progress", f"progress {name}", data=data, parentToolUseID="task", toolUseID="agent_msg")


def test_the_messages_come_from_the_session(tmp_path: Path) -> None:
    """With their tokens, their parents, and a link from the call."""
    session_with_agent().write(tmp_path)
    library = Library(tmp_path)
    (ref,) = library.refs()
    main, agent = library.load_all(ref)
    (link,) = main.subagents
    assert (link.tool_use_id, link.agent_id, link.session, link.status) == ("task", "a1", agent.id, "completed")
    assert (link.agent_type, link.linked_by) == ("Explore", "parentToolUseID")
    assert (agent.title, agent.info.parent, agent.info.usage.output) == ("count", main.id, 10)
    assert [message.author for message in agent.messages] == ["model", "model", "harness", "model"]
    assert [message.parent_index for message in agent.messages] == [None, 0, 1, 2]
    assert b"kept" in bytes(agent.messages[3].blocks[0].raw)  # type: ignore[union-attr]
    assert texts(main)[-1] == "three files"
    assert main.problems == agent.problems == []
    assert [inner.id for inner in library.inline_subagents(ref)] == [agent.id]
    assert library.load(library.find(agent.id)).to_dict() == agent.to_dict()


def test_a_file_of_its_own_comes_first(tmp_path: Path) -> None:
    """What the session repeats is not read twice."""
    session_with_agent().write(tmp_path)
    own = ClaudeLog(version="2.1.39", agent="a1")
    own.user("count")
    own.model("three, and more than the session repeats")
    own.write(tmp_path)
    library = Library(tmp_path)
    sessions = {ref.id: list(library.load_all(ref)) for ref in library.refs()}
    assert [len(found) for found in sessions.values()] == [1, 1]
    (link,) = sessions[own.session][0].subagents
    assert link.session == f"{own.session}/a1"
    assert texts(sessions[link.session][0])[-1] == "three, and more than the session repeats"


def test_a_sidechain_continues_after_a_record_about_progress(tmp_path: Path) -> None:
    """It is one conversation, and a response whose parts are before and after it is counted once."""
    log = ClaudeLog(version="2.1.39")
    log.user("count", isSidechain=True)
    log.model({"type": "text", "text": "two calls"}, call("one"), name="asked", reply="one", isSidechain=True)
    log.line("progress", "runs", data={"type": "bash_progress"}, toolUseID="one", isSidechain=True)
    log.model(call("two"), reply="one", isSidechain=True)
    log.write(tmp_path)
    library = Library(tmp_path)
    (ref,) = library.refs()
    _, agent = library.load_all(ref)
    assert [message.parent_index for message in agent.messages] == [None, 0, 1]
    assert sum(message.usage is not None for message in agent.messages) == 1
