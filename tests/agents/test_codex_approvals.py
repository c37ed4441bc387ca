"""Calls of Codex CLI that need approval: rejected by the automatic reviewer, or never answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unspool.agents.codex.outcomes import judge
from unspool.testing import CodexLog

REJECTED = (
    'exec_command failed: CreateProcess { message: "Rejected(\\"This action was rejected due to unacceptable risk.'
    '\\\\nReason: too dangerous.\\")" }'
)
ESCALATED = {"cmd": "touch /opt/a", "sandbox_permissions": "require_escalated", "justification": "May I?"}


def say(log: CodexLog, text: str) -> None:
    log.item("message", role="assistant", content=[{"type": "output_text", "text": text}])


def ask(log: CodexLog, text: str) -> None:
    log.event("task_started")
    log.item("message", role="user", content=[{"type": "input_text", "text": text}])


def context(log: CodexLog, **fields: Any) -> None:
    log.envelope("turn_context", **({"approval_policy": "on-request", "model": "gpt-5.5"} | fields))


# --- the automatic reviewer ---


def test_the_reviewer_rejects_by_a_rule(tmp_path: Path) -> None:
    """No person was asked; the model continues."""
    log = CodexLog(version="0.145.0")
    ask(log, "touch it")
    context(log, approvals_reviewer="auto_review")
    log.call("call-1", "exec_command", **ESCALATED)
    log.output("call-1", REJECTED)
    say(log, "I may not.")
    session = log.load(tmp_path)
    (rejection,) = session.rejections
    assert (rejection.by, rejection.tool_use_id, rejection.confidence) == ("rule", "call-1", 1.0)
    assert rejection.action is not None
    assert rejection.action.command == "touch /opt/a"
    assert session.interruptions == []


def test_a_command_that_prints_the_words_was_not_rejected() -> None:
    """It ran: its exit code comes before them."""
    ran = "Chunk ID: 1a\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n"
    assert judge(ran + "This action was rejected due to unacceptable risk.").kind == "ok"
    assert judge(REJECTED).by == "rule"


@pytest.mark.parametrize(
    ("reviewer", "rejected_by", "interrupted_by"),
    [
        ("auto_review", ["rule", "rule"], ["system"]),
        ("user", ["rule", "rule", "user"], []),
    ],
)
def test_three_rejections_in_a_row_stop_the_turn(
    tmp_path: Path, reviewer: str, rejected_by: list[str], interrupted_by: list[str]
) -> None:
    """The file says that the user interrupted it, but nobody was there; with a person, it is their rejection."""
    log = CodexLog(version="0.166.0")
    ask(log, "touch them")
    context(log, approvals_reviewer=reviewer)
    for number in range(2):
        log.call(f"call-{number}", "exec_command", **ESCALATED)
        log.output(f"call-{number}", REJECTED)
    log.call("call-2", "exec_command", **ESCALATED)
    log.output("call-2", "Wall time: 0.1 seconds\naborted by user")
    log.event("turn_aborted", reason="interrupted")
    session = log.load(tmp_path)
    assert [rejection.by for rejection in session.rejections] == rejected_by
    assert [interruption.type for interruption in session.interruptions] == interrupted_by
    for interruption in session.interruptions:
        assert "automatic reviewer" in interruption.evidence
        assert interruption.confidence < 1
        assert interruption.tool_use_ids == ["call-2"]


def test_an_assessment_shows_the_reviewer(tmp_path: Path) -> None:
    """0.118 does not record who is asked, but what the reviewer said."""
    log = CodexLog(version="0.118.0")
    ask(log, "touch it")
    context(log)
    log.event("guardian_assessment", id="call-1", status="denied", risk_level="high", rationale="too dangerous")
    log.call("call-1", "exec_command", **ESCALATED)
    log.output("call-1", "aborted by user after 0.1s")
    log.event("turn_aborted", reason="interrupted")
    session = log.load(tmp_path)
    assert session.rejections == []
    assert len(session.interruptions) == 1


def test_one_rejection_does_not_explain_an_abort(tmp_path: Path) -> None:
    """A person can interrupt a turn with an automatic reviewer as well."""
    log = CodexLog(version="0.166.0")
    ask(log, "touch them")
    context(log, approvals_reviewer="auto_review")
    log.call("call-1", "exec_command", **ESCALATED)
    log.output("call-1", REJECTED)
    log.call("call-2", "exec_command", cmd="sleep 60")
    log.output("call-2", "aborted by user after 3.0s")
    log.event("turn_aborted", reason="interrupted")
    (interruption,) = log.load(tmp_path).interruptions
    assert (interruption.type, interruption.confidence) == ("user", 1.0)


# --- never answered ---


def unanswered(version: str = "0.77.0") -> CodexLog:
    """A call that asked to leave the sandbox and got no result."""
    log = CodexLog(version=version)
    ask(log, "write it")
    context(log)
    log.call("call-1", "shell_command", command="touch /opt/a", sandbox_permissions="require_escalated")
    log.event("token_count", info=None)
    return log


def test_the_model_continues_without_a_result(tmp_path: Path) -> None:
    """A person or a rule must have said no, as the process was alive; the evidence is weak, and says so."""
    log = unanswered()
    log.envelope("turn_context", approval_policy="on-request")
    say(log, "Then I leave it.")
    session = log.load(tmp_path)
    (rejection,) = session.rejections
    assert (rejection.by, rejection.tool_use_id, rejection.rejection_type) == ("user", "call-1", "command")
    assert rejection.evidence == "inferred: a call that asked for approval has no result"
    assert rejection.confidence == 0.4
    assert rejection.action is not None
    assert rejection.action.command == "touch /opt/a"
    assert [(orphan.tool_use_id, orphan.reason) for orphan in session.orphans] == [("call-1", "unknown")]


@pytest.mark.parametrize("later", [{}, {"sandbox_permissions": "require_escalated"}])
def test_a_later_call_may_have_the_same_id(tmp_path: Path, later: dict[str, str]) -> None:
    """A rejection belongs to the call that asked, whether or not the later one asked as well."""
    log = unanswered()
    log.envelope("turn_context", approval_policy="on-request")
    say(log, "Then I try something else.")
    log.event("token_count", info=None)
    log.call("call-1", "shell_command", command="touch /opt/b", **later)
    log.envelope("turn_context", approval_policy="on-request")
    say(log, "Done.")
    session = log.load(tmp_path)
    calls = [(use.message_index, use.input["command"]) for use in session.tool_calls()]
    assert [command for _, command in calls] == ["touch /opt/a", "touch /opt/b"]
    rejected = [(event.message_index, event.action.command) for event in session.rejections if event.action]
    assert rejected == (calls if later else calls[:1])
    assert [orphan.message_index for orphan in session.orphans] == [index for index, _ in calls]


@pytest.mark.parametrize(("version", "rejections"), [("0.65.0", 1), ("", 1), ("0.77.0", 0), ("0.166.0", 0)])
def test_a_person_continues_without_a_result(tmp_path: Path, version: str, rejections: int) -> None:
    """From 0.72 on a rejection has a result, so the process ended at the question and was started again."""
    log = unanswered(version)
    ask(log, "something else")
    say(log, "Done.")
    session = log.load(tmp_path)
    assert len(session.rejections) == rejections
    assert [orphan.tool_use_id for orphan in session.orphans] == ["call-1"]


def test_the_session_ends_at_the_question(tmp_path: Path) -> None:
    """It may still be open: an unfinished call, and nothing else."""
    session = unanswered("").load(tmp_path)
    assert session.rejections == []
    assert [orphan.tool_use_id for orphan in session.orphans] == ["call-1"]


def test_an_abort_explains_the_missing_result(tmp_path: Path) -> None:
    """It is one interruption, not a rejection as well."""
    log = unanswered("")
    log.event("turn_aborted", reason="interrupted")
    ask(log, "something else")
    say(log, "Done.")
    session = log.load(tmp_path)
    assert session.rejections == []
    assert len(session.interruptions) == 1


@pytest.mark.parametrize("fields", [{"approval_policy": "never"}, {"approvals_reviewer": "auto_review"}])
def test_nobody_is_asked(tmp_path: Path, fields: dict[str, str]) -> None:
    """Then no person can have rejected it."""
    log = CodexLog(version="0.77.0")
    ask(log, "write it")
    context(log, **fields)
    log.call("call-1", "exec_command", **ESCALATED)
    log.event("token_count", info=None)
    log.envelope("turn_context", approval_policy="on-request")
    say(log, "Then I leave it.")
    assert log.load(tmp_path).rejections == []


def test_parallel_calls_of_a_process_that_was_killed(tmp_path: Path) -> None:
    """Their results are written together: the finished sibling has none either, and nobody rejected anything."""
    log = CodexLog(version="0.166.0")
    ask(log, "do both")
    context(log)
    log.call("call-1", "exec_command", cmd="echo done")
    log.call("call-2", "exec_command", **ESCALATED)
    ask(log, "again")
    say(log, "Done.")
    session = log.load(tmp_path)
    assert [orphan.tool_use_id for orphan in session.orphans] == ["call-1", "call-2"]
    assert (session.rejections, session.interruptions) == ([], [])
