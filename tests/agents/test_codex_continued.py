"""How threads of Codex CLI continue: at an earlier point, in another folder, or in the middle of an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unspool.core.session import Session
from unspool.library import Library
from unspool.testing import CodexLog, texts, write_file


def user(log: CodexLog, text: str) -> None:
    log.item("message", role="user", content=[{"type": "input_text", "text": text}])


def sessions(home: Path) -> dict[str, Session]:
    library = Library(home)
    return {ref.id: library.load(ref) for ref in library.refs()}


@pytest.mark.parametrize("version", ["0.118.0", "0.125.0"])
def test_going_back_in_the_same_file(tmp_path: Path, version: str) -> None:
    """An event says how many turns were dropped; the prompt after it is a rollback."""
    log = CodexLog(version=version)
    log.turn("one", "first")
    log.turn("two", "second")
    log.event("thread_rolled_back", num_turns=1)
    log.turn("three", "third")
    session = log.load(tmp_path)
    (rollback,) = session.rollbacks
    assert texts(session, rollback.dropped_message_indices) == ["two", "second"]
    assert texts(session, session.active_path()) == ["one", "first", "three", "third"]


def test_going_back_by_a_fork(tmp_path: Path) -> None:
    """0.145 copies the turns before to a new thread, and records no rollback."""
    old, new = CodexLog("old", "0.145.0"), CodexLog("new", "0.145.0")
    old.turn("one", "first")
    copied = list(old.lines)
    old.turn("two", "second")
    head = json.loads(new.lines[0])
    head["payload"]["forked_from_id"] = old.thread
    new.lines = [json.dumps(head).encode(), *copied]
    new.turn("three", "third")
    old.write(tmp_path)
    new.write(tmp_path)
    found = sessions(tmp_path)
    fork = found[new.thread]
    assert (fork.info.origin.kind, fork.info.origin.session) == ("fork", old.thread)
    assert texts(fork, [message for message in fork.messages if message.inherited]) == ["one", "first"]
    assert [session.rollbacks for session in found.values()] == [[], []]
    assert texts(found[old.thread]) == ["one", "first", "two", "second"]


def test_going_back_in_a_second_file(tmp_path: Path) -> None:
    """0.160 and later write another file of the same thread, which names where it continues."""
    log = CodexLog(version="0.166.0")
    log.turn("one", "first")
    end = len(log.lines)
    log.turn("two", "second")
    numbered = [json.loads(line) | {"ordinal": number} for number, line in enumerate(log.lines)]
    log.lines = [json.dumps(record).encode() for record in numbered]
    first = log.write(tmp_path)
    again = CodexLog(version="0.166.0")
    head = json.loads(again.lines[0]) | {"ordinal": end}
    head["payload"]["history_base"] = {"thread_id": log.thread, "end_ordinal_exclusive": end}
    again.turn("three", "third")
    later = [json.loads(line) | {"ordinal": end + number} for number, line in enumerate(again.lines[1:], 1)]
    name = f"rollout-2026-03-01T09-30-00-{log.thread}_{log.id('revert')}.jsonl"
    write_file(first.with_name(name), b"".join(json.dumps(record).encode() + b"\n" for record in [head, *later]))
    (session,) = sessions(tmp_path).values()
    (rollback,) = session.rollbacks
    assert rollback.evidence == "revert"
    assert texts(session, rollback.dropped_message_indices) == ["two", "second"]
    assert texts(session, session.active_path()) == ["one", "first", "three", "third"]


def test_a_message_that_cuts_an_answer_off(tmp_path: Path) -> None:
    """0.166 drops the unfinished answer and writes no abort: the record has no interruption, and no text to show."""
    log = CodexLog(version="0.166.0")
    log.event("task_started")
    user(log, "write a long text")
    log.item("reasoning", summary=[{"type": "summary_text", "text": "thinking"}])
    user(log, "no, a short one")
    log.item("message", role="assistant", content=[{"type": "output_text", "text": "Short."}])
    log.event("task_complete")
    session = log.load(tmp_path)
    assert (session.interruptions, session.branches) == ([], [])
    assert [message.queued for message in session.messages if message.author == "human"] == [False, True]
    assert texts(session, session.active_path()) == ["write a long text", "thinking", "no, a short one", "Short."]


def test_a_session_that_is_resumed_in_another_folder(tmp_path: Path) -> None:
    """It keeps its project; the new folder is in the environment that the model is sent, and no event is made up."""
    log = CodexLog(version="0.145.0")
    turn: dict[str, Any] = {"approval_policy": "on-request", "model": "gpt-5.5"}
    for folder, prompt in (("/home/dev/demo", "one"), ("/home/dev/other", "two")):
        user(log, f"<environment_context>\n  <cwd>{folder}</cwd>\n</environment_context>")
        log.envelope("turn_context", cwd=folder, **turn)
        log.turn(prompt, f"answer to {prompt}")
    session = log.load(tmp_path)
    assert session.info.project is not None
    assert session.info.project.path == "/home/dev/demo"
    assert sum("/home/dev/other" in text for text in texts(session)) == 1
    assert [message.author for message in session.messages].count("human") == 2
    assert (session.rollbacks, session.context_clears, session.branches) == ([], [], [])
