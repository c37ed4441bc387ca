"""What was decided under the supervisor counts more than what the agents' files seem to say."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from unspool.core import model as m
from unspool.core.decisions import EVIDENCE, RecordedDecision, apply_decisions
from unspool.core.session import Session
from unspool.testing import ClaudeLog, call

REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)


def decided(verdict: Any, **facts: Any) -> RecordedDecision:
    """A decision about the one call."""
    given: dict[str, Any] = {"by": "user", "request": None, **facts}
    return RecordedDecision(
        at=datetime(2026, 3, 1, tzinfo=UTC), agent="claude", session="s", call_ids=["a"], verdict=verdict, **given
    )


def asked(home: Path, result: str | None = None) -> Session:
    """A session with a call that was asked about."""
    log = ClaudeLog()
    log.user("do it")
    log.model(call("a", command="rm -r ."), reply="one")
    if result is not None:
        log.result("a", result, error=True, toolUseResult=f"Error: {result}")
    return log.load(home)


@pytest.mark.parametrize(("by", "type"), [("user", "user"), ("agent", "system")])
@pytest.mark.parametrize("result", [None, REFUSED])
def test_a_call_without_an_answer_was_interrupted(tmp_path: Path, result: str | None, by: str, type: str) -> None:
    """Whether the file has no result or a rejection; the event names who stopped it."""
    found = apply_decisions(asked(tmp_path, result), [decided("interrupt", by=by)])
    assert found.rejections == []
    (interruption,) = found.interruptions
    assert (interruption.type, interruption.during, interruption.tool_use_ids) == (type, "approval", ["a"])
    assert interruption.evidence == EVIDENCE


def test_a_rejection_gets_its_reason_from_the_decision(tmp_path: Path) -> None:
    found = apply_decisions(asked(tmp_path, REFUSED), [decided("deny", reason="Not all of it.")])
    (rejection,) = found.rejections
    assert (rejection.reason, rejection.by, rejection.evidence) == ("Not all of it.", "user", EVIDENCE)


def test_an_approval_changes_nothing(tmp_path: Path) -> None:
    session = asked(tmp_path)
    assert apply_decisions(session, [decided("allow")]) == session
    assert isinstance(session.orphans[0], m.Orphan)
