"""How threads of Codex CLI continue: at an earlier point, in another folder, or in the middle of an answer."""

from __future__ import annotations

import json
import sys
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


def continuing(log: CodexLog, other: CodexLog, end: int) -> None:
    """Let a thread begin with the lines of another one before an ordinal, and number its own lines from there."""
    records = [json.loads(line) | {"ordinal": end + number} for number, line in enumerate(log.lines)]
    records[0]["payload"]["history_base"] = {"thread_id": other.thread, "end_ordinal_exclusive": end}
    log.lines = [json.dumps(record).encode() for record in records]


@pytest.mark.parametrize("bases", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "b"}])
def test_threads_that_continue_each_other(tmp_path: Path, bases: dict[str, str]) -> None:
    """No thread begins with itself: each has its own lines once, and the other sessions are read as ever."""
    logs = {name: CodexLog(name, "0.166.0") for name in ("a", "b", "c", "other")}
    for name, log in logs.items():
        log.turn(f"prompt {name}", f"answer {name}")
        if name in bases:
            continuing(log, logs[bases[name]], 100)
        log.write(tmp_path)
    found = sessions(tmp_path)
    for name, log in logs.items():
        session = found[log.thread]
        own = [message for message in session.messages if not message.inherited]
        assert texts(session, own) == [f"prompt {name}", f"answer {name}"]
        assert texts(session).count(f"prompt {name}") == 1
    library = Library(tmp_path)
    assert all(library.peek(ref).title for ref in library.refs())


def test_a_long_chain_of_forks(tmp_path: Path) -> None:
    """A fork may continue a fork, and so on: the depth has no limit."""
    logs = [CodexLog(f"thread {number}", "0.166.0") for number in range(sys.getrecursionlimit() + 10)]
    for number, log in enumerate(logs):
        user(log, f"prompt {number}")
        if number:
            continuing(log, logs[number - 1], 2 * number)
        log.write(tmp_path)
    library = Library(tmp_path)
    last = library.find(logs[-1].thread)
    assert library.peek(last).title == "prompt 0"
    assert texts(library.load(last)) == [f"prompt {number}" for number in range(len(logs))]


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


def test_a_clear_at_the_last_time(tmp_path: Path) -> None:
    """The session stays readable, and the clear is after all of its messages."""
    log = CodexLog()
    log.turn("one", "first")
    clear = {"session_id": log.thread, "ts": 253402300799999, "text": "/clear"}
    write_file(tmp_path / ".codex" / "history.jsonl", json.dumps(clear).encode() + b"\n")
    session = log.load(tmp_path)
    (found,) = session.context_clears
    assert found.after_message_index == len(session.messages) - 1
