"""Entries of a session, before they are drawn."""

from __future__ import annotations

from pathlib import Path

from unspool.agents import AGENTS
from unspool.render.transcript import Transcript
from unspool.testing import ClaudeLog, call

from ..work import lines_per_pair

BRANCHES = 30


def branched() -> ClaudeLog:
    """A prompt that was changed again and again, because each answer was interrupted."""
    log = ClaudeLog("branched")
    log.user("Begin.", name="start")
    log.model("Begun.", name="begun")
    for attempt in range(BRANCHES):
        log.user(f"Attempt {attempt}", parent="begun")
        log.model("Half of it")
        log.user([{"type": "text", "text": "[Request interrupted by user]"}])
    log.user("The last attempt", parent="begun")
    log.model("Done.")
    return log


def test_events_of_branches_are_counted_once(tmp_path: Path) -> None:
    """Not again for each branch: a session can have thousands of both."""
    session = branched().load(tmp_path)
    asked = []

    def branch_of(index: int) -> int:
        asked.append(index)
        return session.messages[index].branch

    transcript = Transcript(session, AGENTS["claude"].describe, branch_of=branch_of)
    labels = [entry.label for entry in transcript.entries() if entry.kind == "fork"]
    assert len(labels) == BRANCHES
    assert all("1 interrupted" in label for label in labels)
    assert len(asked) == len(session.interruptions)


def test_one_id_of_many_calls(tmp_path: Path) -> None:
    """Each result is compared with what is shown once, not with each call again."""

    def work(count: int) -> None:
        log = ClaudeLog(f"{count} calls")
        for number in range(count):
            log.model(call("same", command="ls"))
            log.result("same", f"output {number}")
        entries = list(Transcript(log.load(tmp_path), AGENTS["claude"].describe).entries())
        assert [entry.kind for entry in entries] == ["call"] * count

    assert lines_per_pair(work, 20) < 0.25
