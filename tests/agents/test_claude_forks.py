"""Forks of headless sessions of Claude Code, which name nothing: only their lines tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unspool.library import Library
from unspool.testing import ClaudeLog

from ..forks import continued, forked, raw_output_tokens


@pytest.mark.parametrize(("original", "fork"), [("one", "two"), ("two", "one")])
@pytest.mark.parametrize("between", [True, False])
def test_a_fork_that_begins_after_its_first_message(tmp_path: Path, original: str, fork: str, between: bool) -> None:
    """Whichever id comes first, and whether or not notes stand between the copied answer and the next."""
    first = ClaudeLog(original)
    first.record({"type": "queue-operation", "operation": "enqueue", "timestamp": first.next_time()})
    first.user("shared", "shared")
    first.model("answer", name="answer")
    second = ClaudeLog(fork)
    second.record({"type": "queue-operation", "operation": "enqueue", "timestamp": "2026-03-01T10:00:00.000Z"})
    for line in first.lines[1:]:
        second.record(json.loads(line) | {"sessionId": second.session})
    second.last = second.id("answer")
    second.user("apart", "apart")
    if between:
        second.record({"type": "last-prompt", "leafUuid": second.last, "sessionId": second.session})
    second.model("apart indeed", name="apart answer")
    first.write(tmp_path)
    second.write(tmp_path)
    library = Library(tmp_path)
    origins = {ref.id: library.load(ref).info.origin for ref in library.refs()}
    assert origins[first.session].kind == "new"
    assert (origins[second.session].kind, origins[second.session].session) == ("fork", first.session)


def _origins(home: Path, *logs: ClaudeLog) -> dict[str, str | None]:
    """Return the origin of each session, after checking that tokens count once."""
    for log in logs:
        log.write(home)
    library = Library(home)
    sessions = {ref.id: library.load(ref) for ref in library.refs()}
    tokens = [session.info.usage.output or 0 for session in sessions.values()]
    assert sum(tokens) == raw_output_tokens(*logs)
    return {id: session.info.origin.session for id, session in sessions.items()}


@pytest.mark.parametrize("keep_ids", [True, False])
def test_a_fork_of_a_fork(tmp_path: Path, keep_ids: bool) -> None:
    """Its origin is the fork, not the first session, though both have been continued since."""
    first = ClaudeLog("first")
    continued(first, "first")
    second = forked(first, "second", keep_ids=keep_ids)
    third = forked(second, "third", keep_ids=keep_ids)
    beside = forked(first, "beside", keep_ids=keep_ids)
    fourth = forked(third, "fourth", keep_ids=keep_ids)
    for log in (first, second):
        continued(log, f"{log.session} again")
    assert _origins(tmp_path, first, second, third, beside, fourth) == {
        first.session: None,
        second.session: first.session,
        third.session: second.session,
        beside.session: first.session,
        fourth.session: third.session,
    }


def test_twins_that_nothing_tells_apart(tmp_path: Path) -> None:
    """One is new; the other is its fork, at a low confidence."""
    first = ClaudeLog("first")
    continued(first, "first")
    second = forked(first, "second", notes=False)
    continued(first, "first again")
    origins = _origins(tmp_path, first, second)
    (original,) = (id for id, origin in origins.items() if origin is None)
    assert set(origins.values()) == {None, original}
    library = Library(tmp_path)
    confidences = {library.load(ref).info.origin.confidence for ref in library.refs()}
    assert confidences == {1.0, 0.5}


@pytest.mark.parametrize("keep_ids", [True, False])
def test_a_fork_of_a_session_that_started_with_a_clear(tmp_path: Path, keep_ids: bool) -> None:
    """It begins with a copy of the command, but the context was cleared only once."""
    old = continued(ClaudeLog("old"), "old")
    new = ClaudeLog("new")
    new.next_time = old.next_time  # type: ignore[method-assign]  # one clock for all
    new.user("<command-name>/clear</command-name>", "clear", session_id=old.session)
    continued(new, "new")
    fork = forked(new, "fork", keep_ids=keep_ids, notes=keep_ids)
    if not keep_ids:
        # 2.1.325 writes the original's id beside its own.
        fork.lines = [json.dumps(json.loads(line) | {"session_id": new.session}).encode() for line in fork.lines]
    assert _origins(tmp_path, old, new, fork) == {
        old.session: None,
        new.session: old.session,
        fork.session: new.session,
    }
    library = Library(tmp_path)
    assert library.load(library.find(fork.session)).info.origin.kind == "fork"
    assert [clear.next_session for clear in library.load(library.find(old.session)).context_clears] == [new.session]


@pytest.mark.parametrize("keep_ids", [True, False])
def test_forks_of_a_session_that_is_gone(tmp_path: Path, keep_ids: bool) -> None:
    """What they share counts in one of them; `_origins` checks that."""
    gone = continued(ClaudeLog("gone"), "gone")
    one = forked(gone, "one", keep_ids=keep_ids)
    two = forked(gone, "two", keep_ids=keep_ids)
    below = forked(one, "below", keep_ids=keep_ids)
    for log in (one, two, below):
        continued(log, f"{log.session} again")
    three = forked(gone, "three", keep_ids=keep_ids)
    origins = _origins(tmp_path, one, two, below, three)
    if keep_ids:
        assert origins == {
            one.session: gone.session,
            two.session: gone.session,
            below.session: one.session,
            three.session: gone.session,
        }
