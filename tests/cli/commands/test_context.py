"""`unspool context`: what the model had before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.library import Library
from unspool.testing import ClaudeLog, call

from ..run import SAMPLES, Run


def compacted() -> ClaudeLog:
    """A session whose beginning was replaced by a summary, with a call that never finished."""
    log = ClaudeLog()
    log.user("before")
    log.model("answer before")
    log.boundary(trigger="manual", preTokens=1_000)
    log.user("Summary of it.", isCompactSummary=True)
    log.user("after")
    log.model("working", call("open", command="make"))
    log.user("and now?")
    log.model("done")
    return log


def test_at_a_message(run: Run, tmp_path: Path) -> None:
    """The messages in context, one a line, and how many of all they are."""
    done = run("context", compacted().write(tmp_path), "--at", "7")
    assert done.code == 0
    assert done.lines[0] == "5 of 8 messages in context before #7"
    assert [line.split()[0] for line in done.lines[1:]] == ["#2", "#3", "#4", "#5", "#6"]
    assert "[summary] Summary of it." in done.out
    assert "[Bash] (omitted)" in done.out
    assert "answer before" not in done.out


def test_at_a_message_as_json(run: Run, tmp_path: Path) -> None:
    """The same by kinds."""
    (context,) = run("context", compacted().write(tmp_path), "--at", "7", "--json").records
    assert context["message_indices"] == [2, 3, 4, 5, 6]
    assert context["context"] == {
        "calls": [],
        "results": [],
        "prompts": ["after", "and now?"],
        "answers": ["working"],
        "summaries": ["Summary of it."],
    }


def test_the_next_message(run: Run, tmp_path: Path) -> None:
    """The number of messages means the next message."""
    path = compacted().write(tmp_path)
    done = run("context", path, "--at", "8")
    assert done.lines[0] == "6 of 8 messages in context for the next message"
    assert run("context", path, "--at", "8", "--json").records[0]["message_indices"] == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("index", ["-1", "9", "1000"])
def test_a_message_that_does_not_exist(run: Run, tmp_path: Path, index: str) -> None:
    """Wrong usage; the message says which there are."""
    done = run("context", compacted().write(tmp_path), f"--at={index}")
    assert done.code == 2
    assert "has 8 messages; --at takes 0 to 8" in done.err


@pytest.mark.parametrize("names", [(), ("37c2", "cdc4")])
def test_at_needs_one_session(run: Run, names: tuple[str, ...]) -> None:
    """A number means nothing in several sessions."""
    done = run("context", *names, "--home", SAMPLES, "--at", "1")
    assert done.code == 2
    assert "exactly one session" in done.err


@pytest.mark.parametrize("words", [(), ("--at", "1", "--each"), ("--at", "x")])
def test_either_at_or_each(run: Run, words: tuple[str, ...]) -> None:
    """One of the two has to be asked for."""
    assert run("context", "37c2", "--home", SAMPLES, *words).code == 2


def test_each_reply(run: Run) -> None:
    """Every reply of every session, in one line each, with what it had before it."""
    replies = run("context", "--home", SAMPLES, "--each", "--json").records
    library = Library(SAMPLES)
    sessions = [session for ref in library.refs() for session in library.load_all(ref)]
    expected = [(session.id, reply.message_indices[0]) for session in sessions for reply in session.replies()]
    assert [(reply["session"], reply["message_index"]) for reply in replies] == expected
    assert len(run("context", "--home", SAMPLES, "--each").lines) == len(expected)


def test_each_reply_names_sub_agents_by_their_own_id(run: Run) -> None:
    """The beginning of a sub-agent's id is that of its session, so its end is shown as well."""
    (ref,) = [ref for ref in Library(SAMPLES).refs() if "/" in ref.id]
    lines = run("context", ref.id, "--home", SAMPLES, "--each").lines
    assert lines
    assert {Library(SAMPLES).find(line.split("  #")[0]).id for line in lines} == {ref.id}
