"""Plans that were approved with "clear context" in Claude Code, which records them like rejections."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unspool.core.session import Session
from unspool.library import Library
from unspool.testing import ClaudeLog, call

from ..forks import forked

REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."
MARKER = [{"type": "text", "text": "[Request interrupted by user for tool use]"}]
PLAN = "Implement the following plan:\n\n# Greet\n\n1. write hello.txt"
MARK = {"planContent": "# Greet"}


def planned(version: str, name: str = "old") -> ClaudeLog:
    log = ClaudeLog(name, version)
    log.user("plan a greeting", f"{name} prompt")
    log.model(call("plan", "ExitPlanMode", plan="# Greet"), name=f"{name} call")
    return log


def refuse(log: ClaudeLog, **fields: Any) -> None:
    log.result("plan", REFUSED, "refusal", error=True, **fields)


def mark(log: ClaudeLog, **fields: Any) -> None:
    log.user(MARKER, "marker", **fields)


def implement(log: ClaudeLog, parent: str | None = None, **fields: Any) -> None:
    log.user(PLAN, f"{log.session} plan", parent, **fields)
    log.model("done")


def version_2_1_12(old: ClaudeLog, new: ClaudeLog) -> None:
    """The conversation is copied, with its end; hooks separate it from the plan."""
    for line in old.lines:
        new.record(json.loads(line) | {"sessionId": new.session})
    new.last = old.last
    refuse(new)
    mark(new)
    new.line("progress", "hook", None, data={"type": "hook_progress", "hookName": "SessionStart:clear"})
    implement(new, "hook")


def version_2_1_29(old: ClaudeLog, new: ClaudeLog) -> None:
    new.last = old.last
    refuse(new)
    mark(new)
    implement(new, **MARK)


def version_2_1_49(old: ClaudeLog, new: ClaudeLog) -> None:
    refuse(old)
    mark(old)
    implement(new, **MARK)


def version_2_1_63(old: ClaudeLog, new: ClaudeLog) -> None:
    refuse(old)
    mark(new, parent="refusal", sessionId=old.session)
    implement(new, **MARK)


def version_2_1_325(old: ClaudeLog, new: ClaudeLog) -> None:
    implement(new, origin={"kind": "auto-continuation"}, session_id=old.session)


def written(home: Path, *logs: ClaudeLog) -> list[Session]:
    """The sessions of some logs, in their order."""
    for log in logs:
        log.write(home)
    library = Library(home)
    sessions = {ref.id: library.load(ref) for ref in library.refs()}
    return [sessions[log.session] for log in logs]


def typed_in(home: Path, log: ClaudeLog, text: str, at: str) -> None:
    entry = {"display": text, "timestamp": at, "project": "/home/dev/demo", "sessionId": log.session}
    (home / ".claude").mkdir()
    (home / ".claude" / "history.jsonl").write_text(json.dumps(entry) + "\n", encoding="utf-8")


@pytest.mark.parametrize("handover", [version_2_1_12, version_2_1_29, version_2_1_49, version_2_1_63, version_2_1_325])
def test_an_approval_that_clears_the_context(tmp_path: Path, handover: Callable[[ClaudeLog, ClaudeLog], None]) -> None:
    """It is neither a rejection nor an interruption nor a fork, and the harness wrote the message with the plan."""
    version = handover.__name__.removeprefix("version_").replace("_", ".")
    old, new = planned(version), ClaudeLog("new", version)
    typed_in(tmp_path, old, "plan a greeting", "2026-03-01T09:00:01.000Z")
    handover(old, new)
    before, after = written(tmp_path, old, new)
    assert [*before.rejections, *after.rejections, *before.interruptions, *after.interruptions] == []
    assert len([*before.context_clears, *after.context_clears]) == 1
    assert (before.info.origin.kind, after.info.origin.kind) == ("new", "clear")
    assert after.info.origin.session == before.id
    (plan,) = (message for message in after.messages if message.text == PLAN)
    assert plan.author == "harness"
    assert after.context_at(plan.index + 1).message_indices == [plan.index]
    results = [result for session in (before, after) for result in session.tool_calls() if result.result is not None]
    assert {entry.result.outcome for entry in results if entry.result is not None} <= {"ok"}
    if before.context_clears:
        assert before.info.status == "complete"
        assert {orphan.reason for orphan in before.orphans} <= {"unknown"}


def test_an_approved_plan_that_several_messages_have(tmp_path: Path) -> None:
    """Both calls with the id were approved, so neither was killed."""
    old, new = planned("2.1.325"), ClaudeLog("new", "2.1.325")
    old.model(call("plan", "ExitPlanMode", plan="# Greet"), name="again", parent="old prompt")
    version_2_1_325(old, new)
    before, _ = written(tmp_path, old, new)
    assert [(orphan.message_index, orphan.reason) for orphan in before.orphans] == [(1, "unknown"), (2, "unknown")]
    assert before.info.status == "complete"


@pytest.mark.parametrize("keep_ids", [True, False])
@pytest.mark.parametrize("handover", [version_2_1_29, version_2_1_49, version_2_1_63, version_2_1_325])
def test_a_fork_of_a_session_that_started_with_a_plan(
    tmp_path: Path, handover: Callable[[ClaudeLog, ClaudeLog], None], keep_ids: bool
) -> None:
    """It begins with a copy of the plan, but the context was cleared only once."""
    old, new = planned("2.1.100"), ClaudeLog("new", "2.1.100")
    handover(old, new)
    before, after, copy = written(tmp_path, old, new, forked(new, "fork", keep_ids=keep_ids))
    assert (after.info.origin.kind, after.info.origin.session) == ("clear", before.id)
    assert (copy.info.origin.kind, copy.info.origin.session) == ("fork", after.id)
    assert [clear.next_session for session in (before, after, copy) for clear in session.context_clears] == [after.id]
    assert [*before.rejections, *after.rejections, *copy.rejections] == []
    (plan,) = (message for message in copy.messages if message.text == PLAN)
    assert plan.author == "harness"


def test_a_plan_in_the_same_file(tmp_path: Path) -> None:
    """What came before is outside of the context, and no branch."""
    log = planned("2.1.12")
    refuse(log)
    mark(log)
    implement(log)
    (session,) = written(tmp_path, log)
    assert (session.rejections, session.branches) == ([], [])
    (clear,) = session.context_clears
    assert (clear.after_message_index, clear.next_session) == (3, None)
    assert [message.context for message in session.messages] == ["cleared"] * 4 + ["live"] * 2


def test_the_last_of_several_sessions_with_one_plan(tmp_path: Path) -> None:
    """The plan was made in the session that ended at this moment; its file name is that of earlier plans too."""
    first, second, third = planned("2.1.49", "first"), planned("2.1.49", "second"), ClaudeLog("third", "2.1.49")
    for log, day in ((first, "01"), (second, "02"), (third, "02")):
        if log is third:
            implement(third, **MARK)
        log.lines = [json.dumps(json.loads(line) | {"slug": "brave-otter"}).encode() for line in log.lines]
        log.lines = [line.replace(b"2026-03-01", f"2026-03-{day}".encode()) for line in log.lines]
    assert written(tmp_path, first, second, third)[2].info.origin.session == second.session


def test_a_plan_that_names_the_transcript(tmp_path: Path) -> None:
    """Later texts name the file of the session, which may be gone."""
    log = ClaudeLog("new", "2.1.49")
    log.user(f"{PLAN}\n\nIf you need details, read the full transcript at: /tmp/{log.id('gone')}.jsonl", **MARK)
    (session,) = written(tmp_path, log)
    assert (session.info.origin.kind, session.info.origin.session) == ("clear", log.id("gone"))


def test_a_rejected_plan(tmp_path: Path) -> None:
    """Rejected for sure if the same session continues. At its end it may also have been approved."""
    log = planned("2.1.49")
    refuse(log)
    mark(log)
    (session,) = written(tmp_path, log)
    assert [rejection.confidence for rejection in session.rejections] == [0.5]
    log.user("shorter, please")
    (session,) = written(tmp_path, log)
    assert [rejection.confidence for rejection in session.rejections] == [1.0]


@pytest.mark.parametrize("is_hooked", [True, False])
def test_a_person_can_type_the_same_words(tmp_path: Path, is_hooked: bool) -> None:
    """Without a mark they are the agent's only if something else shows the clear."""
    log = ClaudeLog("typed", "2.1.17")
    kind = "clear" if is_hooked else "startup"
    log.line("progress", "hook", None, data={"type": "hook_progress", "hookName": f"SessionStart:{kind}"})
    log.user(PLAN)
    log.model("done")
    (session,) = written(tmp_path, log)
    assert session.messages[0].author == ("harness" if is_hooked else "human")
    assert session.info.origin.kind == ("clear" if is_hooked else "new")
