"""What people decided, in the record of real agents: the log of decisions outranks what the agents' files suggest."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from unspool import Session
from unspool.core import model as m

from .end_to_end import Whole, results, said, whole

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are ended with signals")
every_agent = pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
SLOW = "touch began; sleep 300; touch ended"


def run_slowly(at: Whole, run: str | None = None) -> str:
    """Allow a command and wait until it runs, in a run or in a new one; returns the session."""
    prompt = f"@do {at.agent.asking} {SLOW};;say Never."
    if run is None:
        run = at.start(prompt)
    else:
        at.send(run, "slow", prompt)
    status, reply = at.answer(run, at.asked(run), "allow")
    assert status == 200, reply
    at.until((at.project / "began").exists, "the command to begin")
    session: str = at.view(run)["session"]
    if at.agent.name != "gemini":  # It writes a call down when it has a result.
        at.until(lambda: SLOW in commands(at.record(session)), "the call in the file")
    return session


def commands(record: Session) -> str:
    """What the tools of a session were called with."""
    blocks = (block for message in record.messages for block in message.blocks)
    return "\n".join(str(block.input) for block in blocks if isinstance(block, m.ToolCall))


def summary(record: Session) -> list[tuple[str, str, float]]:
    """The interruptions of a session in short."""
    return [(event.type, event.evidence, event.confidence) for event in record.interruptions]


@every_agent
def test_what_was_decided_and_what_happened(agent: str, tmp_path: Path) -> None:
    """One server for all of it, and a session and a folder for each: the starts are most of what this costs."""
    with whole(tmp_path, agent) as at:
        check_that_decisions_outrank_what_the_file_suggests(at)
        if agent == "claude":  # The others do not let an input be changed.
            at.work_in("changed-input")
            check_an_input_that_was_changed_before_it_was_allowed(at)
        at.work_in("dying-agent")
        check_that_an_agent_that_dies_in_a_turn_was_interrupted(at)
        for how in ("ended", "was killed"):
            at.work_in(f"server-{how.split()[-1]}")
            check_that_a_server_that_ends_interrupts_its_agents(at, how)


def check_that_decisions_outrank_what_the_file_suggests(at: Whole) -> None:
    """A rejection has its command, also where the agent's file lost it, and an allowed command was not rejected."""
    run = at.start(f"@do {at.agent.asking} touch one;;say Well then.")
    assert at.answer(run, at.asked(run), "deny")[0] == 200
    at.until_in(run, "idle")
    at.send(run, "two", f"@do {at.agent.asking} touch two;;say Well then.")
    assert at.answer(run, at.asked(run), "deny_stop")[0] == 200
    at.until_in(run, "idle", "interrupted")
    session = run_slowly(at, run)
    assert at.post(f"/runs/{run}/interrupt", who="Ann")[0] == 200
    at.until_in(run, "interrupted")
    assert at.post(f"/runs/{run}/stop", who="Ann")[0] == 200
    at.until_in(run, "ended")
    record = at.agreed(session, lambda record: record.interruptions != [] and len(record.rejections) == 2)
    assert [(each.action.command, each.evidence, each.confidence) for each in record.rejections if each.action] == [
        ("touch one", "supervisor", 1.0),
        ("touch two", "supervisor", 1.0),
    ]
    assert summary(record) == [("user", "supervisor", 1.0)]
    assert [each.outcome for each in results(record)][-1] == "interrupted"
    assert (record.info.status, record.errors) == ("interrupted", [])


def check_an_input_that_was_changed_before_it_was_allowed(at: Whole) -> None:
    """The record has what ran and what was asked for."""
    run = at.start("@do run touch asked;;say Done.")
    assert at.answer(run, at.asked(run), "allow", input={"command": "touch ran"})[0] == 200
    session = at.until_in(run, "idle")["session"]
    record = at.agreed(session, lambda record: "Done." in said(record, "model"))
    assert sorted(path.name for path in at.project.iterdir()) == ["ran"]
    (change,) = record.input_changes
    assert (change.asked.command, change.ran.command) == ("touch asked", "touch ran")
    assert at.shown(session)["input_changes"][0]["ran"]["command"] == "touch ran"
    assert at.post(f"/runs/{run}/stop", who="Ann")[0] == 200
    at.until_in(run, "ended")


def check_that_an_agent_that_dies_in_a_turn_was_interrupted(at: Whole) -> None:
    """Nobody stopped it: one interruption by the system, with what happened, and nobody rejected anything."""
    session = run_slowly(at)
    run = at.runs[-1]
    os.kill(at.view(run)["pid"], signal.SIGKILL)
    assert at.until_in(run, "ended")["reason"] == "it ended unexpectedly"
    record = at.agreed(session, lambda record: record.interruptions != [])
    assert record.rejections == []
    assert summary(record) == [("system", "supervisor: the agent ended unexpectedly (exit code -9)", 1.0)]


def check_that_a_server_that_ends_interrupts_its_agents(at: Whole, how: str) -> None:
    """By itself or by force: one interruption by the system, and nobody rejected anything."""
    session = run_slowly(at)
    if how == "ended":
        at.server.stop()
    else:
        at.server.kill()
    at.server.start()
    record = at.agreed(session, lambda record: record.interruptions != [])
    assert record.rejections == []
    assert summary(record) == [("system", f"supervisor: the server {how}", 1.0)]
    assert [entry["event"]["type"] for entry in at.listed("interruptions", session)] == ["system"]
