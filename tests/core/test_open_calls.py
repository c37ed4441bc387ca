"""Calls that wait for their result, also when several messages have a call with the same id."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from unspool.api import stream
from unspool.core import model as m
from unspool.core.stream import collect
from unspool.core.tree import UNANSWERED
from unspool.testing import ClaudeLog, CodexLog, call, load

from .test_sinks import build, source


def made(id: str) -> m.ToolCall:
    return m.ToolCall(id, "Bash", msgspec.Raw(b"{}"))


@pytest.fixture
def log() -> ClaudeLog:
    log = ClaudeLog()
    log.user("go", name="go")
    log.model(call("c1"), name="first")
    log.model(call("c1"), name="second", parent="go")
    return log


def test_every_call_without_a_result_is_an_orphan(tmp_path: Path, log: ClaudeLog) -> None:
    """The later call with the same id does not hide the earlier one."""
    path = log.write(tmp_path)
    session = load(path)
    assert [(orphan.message_index, orphan.tool_use_id) for orphan in session.orphans] == [(1, "c1"), (2, "c1")]
    assert list(collect(stream(path))) == [session]


def test_a_result_answers_all_calls_with_its_id(tmp_path: Path, log: ClaudeLog) -> None:
    log.result("c1", "done")
    path = log.write(tmp_path)
    session = load(path)
    assert session.orphans == []
    assert [use.result_index for use in session.tool_calls()] == [3, 3]
    assert list(collect(stream(path))) == [session]


def test_a_call_is_an_orphan_once_for_each_agent(tmp_path: Path) -> None:
    """Agents that leave their unfinished calls to the assembly report each call too."""
    log = CodexLog()
    log.call("c1")
    log.call("c1")
    log.call("c2")
    session = load(log.write(tmp_path))
    calls = [use.message_index for use in session.tool_calls()]
    assert [orphan.message_index for orphan in session.orphans] == calls
    assert len(calls) == 3


def test_messages_are_answered_with_their_last_call() -> None:
    """A message with two calls stays unanswered until both have a result, whatever ids others repeat."""
    builder = build()
    for index, ids in enumerate((["a", "b"], ["a"], ["b", "b"])):
        builder.add_reply([made(id) for id in ids], source(index), f"m{index}", index - 1, None, None, f"r{index}")

    def unanswered() -> list[int]:
        return [index for index, flag in enumerate(builder.columns.flags) if flag & UNANSWERED]

    assert unanswered() == [0, 1, 2]
    found = builder.close_call("a")
    assert found is not None
    assert found.message == 1
    assert unanswered() == [0, 2]
    builder.close_call("b")
    assert unanswered() == []
    assert list(builder.calls.unanswered()) == []
