"""Contexts that contradict the tokens of the requests are reported, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import unspool
from unspool.cli.main import main
from unspool.core.context_check import _Check
from unspool.core.stream import collect
from unspool.library import Library
from unspool.testing import ClaudeLog, call

from ..recordings import recordings

SYSTEM = 20_000
"""Tokens of the system prompt and the tools."""
TURNS = 8
BYTES = 16_000
"""Bytes of the results, which make about a quarter of that in tokens."""


def add_turns(log: ClaudeLog, name: str, used: int, turns: int = TURNS) -> int:
    """Add turns with long results, billed by their text; returns the tokens of the context after them."""
    for number in range(turns):
        log.user(f"Read file {number}")
        log.model(call(f"{name}-call{number}"), tokens=SYSTEM + used)
        log.result(f"{name}-call{number}", "x" * BYTES)
        used += BYTES // 4
        log.model("Read.", tokens=SYSTEM + used)
        used += 10
    return used


def doubts(log: ClaudeLog, home: Path) -> list[int | None]:
    """The messages with a doubt, the same in a session and in a stream."""
    session = unspool.load(log.write(home))
    library = Library(home)
    (streamed,) = [session for ref in library.refs() for session in collect(library.stream(ref))]
    assert streamed.problems == session.problems
    return [problem.message_index for problem in session.problems if problem.reason == "context-doubt"]


def test_a_context_that_only_grows_raises_no_doubt(tmp_path: Path) -> None:
    """Every request is larger than the one before."""
    log = ClaudeLog()
    add_turns(log, "a", 0)
    assert doubts(log, tmp_path) == []


def test_a_recorded_compaction_explains_a_smaller_request(tmp_path: Path) -> None:
    """The record says what left the context."""
    log = ClaudeLog()
    add_turns(log, "a", 0)
    log.boundary("boundary", trigger="auto", preTokens=50_000)
    log.user("Summary of the conversation", "summary", isCompactSummary=True)
    add_turns(log, "b", 1_000)
    assert doubts(log, tmp_path) == []


def test_a_missing_compaction_raises_a_doubt(tmp_path: Path) -> None:
    """The same log without the boundary and its summary: the first request after it is too small."""
    log = ClaudeLog()
    add_turns(log, "a", 0)
    add_turns(log, "b", 1_000)
    assert doubts(log, tmp_path) == [TURNS * 4 + 1]


def test_a_compaction_that_removed_nothing_raises_a_doubt(tmp_path: Path) -> None:
    """The next request is as large as the one before, though most messages are said to be gone."""
    log = ClaudeLog()
    used = add_turns(log, "a", 0)
    log.boundary("boundary", trigger="auto", preTokens=50_000)
    log.user("Summary of the conversation", "summary", isCompactSummary=True)
    add_turns(log, "b", used)
    assert doubts(log, tmp_path) == [TURNS * 4 + 3]


def test_every_compaction_is_checked_against_its_own_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not against all of the session before it, or the work would grow with the square of its length."""
    log, used, steps = ClaudeLog(), 0, []
    for number in range(20):
        used = add_turns(log, f"a{number}", used)
        log.boundary(f"boundary {number}", trigger="auto", preTokens=50_000)
        log.user("Summary of the conversation", f"summary {number}", isCompactSummary=True)
    request_before = _Check.request_before

    def counted(check: _Check, index: int) -> int:
        steps.append(index)
        return request_before(check, index)

    monkeypatch.setattr(_Check, "request_before", counted)
    session = unspool.load(log.write(tmp_path))
    assert {problem.reason for problem in session.problems} == {"context-doubt"}
    # Each response is compared, measured and added up once.
    assert 0 < len(steps) < 4 * len(list(session.replies()))


def test_the_tokens_of_another_model_are_not_compared(tmp_path: Path) -> None:
    """Models count differently."""
    log = ClaudeLog()
    add_turns(log, "a", 0)
    count = len(log.lines)
    add_turns(log, "b", 1_000)
    log.lines[count:] = [line.replace(b"claude-sonnet", b"claude-haiku") for line in log.lines[count:]]
    assert doubts(log, tmp_path) == []


@pytest.mark.parametrize("tokens", [90_000, 500])
def test_numbers_that_do_not_follow_the_text_prove_nothing(tokens: int, tmp_path: Path) -> None:
    """Such as those of a proxy that makes them up."""
    log = ClaudeLog()
    for number in range(20):
        log.user(f"Question {number}")
        log.model("Yes.", tokens=tokens if number % 2 else 90_000)
    assert doubts(log, tmp_path) == []


@pytest.mark.slow
def test_recordings_raise_no_doubt() -> None:
    """They say what left the context, or their numbers are made up."""
    for recording in recordings():
        for session in recording.sessions():
            assert [problem for problem in session.problems if problem.reason == "context-doubt"] == [], recording.name


def test_doctor_and_the_page_lead_to_the_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A doubt is not a damaged record."""
    log = ClaudeLog()
    add_turns(log, "a", 0)
    add_turns(log, "b", 1_000)
    log.write(tmp_path)
    assert main(["doctor", "--home", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert re.search(rf"context-doubt +message {TURNS * 4 + 1} +the request of message", shown)
    assert "0 damaged" in shown
    assert "1 context-doubt" in shown


@pytest.mark.parametrize("tokens", [-1, 1 << 80])
def test_an_impossible_number_of_tokens_is_ignored(tmp_path: Path, tokens: int) -> None:
    """A damaged record must not stop the reading."""
    log = ClaudeLog()
    log.user("go")
    log.model("fine", tokens=tokens)
    assert doubts(log, tmp_path) == []
