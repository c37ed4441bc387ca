"""Copies of a Claude Code file in the same folder, as a person or a program that synchronises folders makes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unspool.core.session import Session
from unspool.library import Library
from unspool.testing import ClaudeLog, call, texts

from ..forks import continued, forked


def _log() -> ClaudeLog:
    log = ClaudeLog()
    log.record({"type": "queue-operation", "operation": "enqueue", "content": "later", "sessionId": log.session})
    log.user("hello", "hello")
    log.model(call("one"), call("two"), name="calls")
    log.result("two", "second")
    log.result("one", "first", parent="calls")
    log.user("stop")
    log.user([{"type": "text", "text": "[Request interrupted by user]"}])
    return log


def _only(home: Path) -> Session:
    library = Library(home)
    (ref,) = library.refs()
    return library.load(ref)


@pytest.mark.parametrize("name", ["{} (copy)", "{}.sync-conflict-20260301-101010-ABCDEFG", "Copy of {}"])
def test_the_same_line_counts_once(tmp_path: Path, name: str) -> None:
    """Whatever the copy is called."""
    path = _log().write(tmp_path)
    alone = _only(tmp_path)
    path.with_stem(name.format(path.stem)).write_bytes(path.read_bytes())
    both = _only(tmp_path)
    assert texts(both) == texts(alone)
    assert (both.info.usage, both.interruptions, both.problems) == (alone.info.usage, alone.interruptions, [])


@pytest.mark.parametrize("keep_ids", [True, False])
@pytest.mark.parametrize(("original", "fork"), [("one", "two"), ("two", "one")])
def test_a_sub_agent_that_was_copied_with_its_session(tmp_path: Path, original: str, fork: str, keep_ids: bool) -> None:
    """Its tokens and events count in the original, and its messages are marked as inherited in the copy."""
    main = continued(ClaudeLog(original), "main")
    copy = forked(main, fork, keep_ids=keep_ids)
    agent = ClaudeLog(original, agent="a1")
    agent.user("look around", "task")
    agent.model(call("one"), name="call")
    agent.result("one", "no such file", error=True)
    agent.model("found nothing", reply="end")
    for log in (main, copy, agent):
        log.write(tmp_path)
    again = ClaudeLog(fork, agent="a1")
    for line in agent.lines:
        again.record(json.loads(line) | ({} if keep_ids else {"sessionId": again.session}))
    again.write(tmp_path)
    library = Library(tmp_path)
    loaded = {ref.id: library.load(ref) for ref in library.refs() if ref.kind == "subagent"}
    first, second = loaded[f"{main.session}/a1"], loaded[f"{copy.session}/a1"]
    assert (first.info.usage.output, len(first.errors)) == (10, 1)
    assert (second.info.usage.output or 0, second.errors) == (0, [])
    assert [message.inherited for message in first.messages] == [False] * 4
    assert [message.inherited for message in second.messages] == [True] * 4


def test_what_only_the_copy_has_is_kept(tmp_path: Path) -> None:
    """A conflict is a copy that was continued on another computer."""
    log = _log()
    path = log.write(tmp_path)
    log.user("from the other computer")
    path.with_stem(f"{path.stem}.sync-conflict").write_bytes(log.data)
    session = _only(tmp_path)
    assert texts(session) == texts(log.load(tmp_path / "whole"))
    assert session.problems == []
