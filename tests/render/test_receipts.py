"""Receipts: the decision log and the record of a session, joined call by call."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from unspool.core import model as m
from unspool.core.decisions import RecordedDecision
from unspool.render.diff import changed_files
from unspool.render.receipts import Receipt, decisions_by_call, receipt_lines, receipt_of

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)
COMMAND = m.Action(msgspec.Raw(b'{"command":"make test"}'), command="make test")
DIFF = "--- a.py\n+++ a.py\n@@ -1 +1,2 @@\n-x\n+y\n+z\n--- /dev/null\n+++ b.py\n@@ -0,0 +1 @@\n+new\n"
EDIT = m.Action(msgspec.Raw(b"{}"), path="a.py", diff=DIFF)


def decision(verdict: Any = "allow", **facts: Any) -> RecordedDecision:
    given: dict[str, Any] = {
        "at": AT + timedelta(minutes=1), "asked_at": AT, "agent": "claude", "session": "s", "request": "q1",
        "call_ids": ["c1"], "tool": "Bash", "by": "user", "who": "this phone", "action": COMMAND,
    }  # fmt: skip
    return RecordedDecision(verdict=verdict, **(given | facts))


def lines(receipt: Receipt) -> dict[str, str]:
    return {line.step: line.text for line in receipt_lines(receipt)}


def result(outcome: m.Outcome, exit_code: int | None = None) -> m.ToolResult:
    return m.ToolResult("c1", "", outcome, exit_code)


def test_a_receipt_follows_a_call_from_the_request_to_its_effect() -> None:
    shown = lines(receipt_of([decision()], COMMAND, result("error", 2), None))
    assert "make test" in shown["asked"]
    assert shown["decided"].startswith("allowed by this phone")
    assert shown["ran"] == "as asked"
    assert shown["changed"] == "exit code 2"


def test_a_changed_input_is_shown_as_what_ran() -> None:
    ran = m.Action(msgspec.Raw(b'{"command":"make lint"}'), command="make lint")
    change = m.InputChange(
        message_index=1, tool_use_id="c1", tool_name="Bash", asked=COMMAND, ran=ran, evidence="supervisor"
    )
    receipt = receipt_of([decision()], ran, result("ok", 0), change)
    assert lines(receipt)["asked"].endswith("make test")
    assert lines(receipt)["ran"] == "with a changed input: make lint"


def test_what_was_denied_ran_nothing() -> None:
    shown = lines(receipt_of([decision("deny", reason="use make lint")], COMMAND, result("rejected"), None))
    assert "denied by this phone" in shown["decided"]
    assert "“use make lint”" in shown["decided"]
    assert (shown["ran"], shown["changed"]) == ("nothing", "nothing")


@pytest.mark.parametrize("ended", [None, result("interrupted"), result("tool_use_error"), result("unknown")])
def test_a_receipt_does_not_claim_what_the_record_does_not_say(ended: m.ToolResult | None) -> None:
    receipt = receipt_of([decision(action=EDIT)], EDIT, ended, None)
    assert receipt.has_run is None
    assert receipt.changed == []
    assert lines(receipt)["ran"].startswith("unknown: ")


def test_an_edit_lists_every_file_of_its_diff() -> None:
    receipt = receipt_of([decision(action=EDIT)], EDIT, result("ok"), None)
    assert lines(receipt)["changed"] == "a.py (+2 −1), b.py (+1 −0)"
    assert [one.path for one in changed_files("+a\n-b\n", "plain.txt")] == ["plain.txt"]


def test_decisions_are_found_by_each_of_their_calls() -> None:
    found = decisions_by_call([decision(call_ids=["c1", "c2"]), decision("interrupt", call_ids=["c2"], request=None)])
    assert {call: [one.verdict for one in ones] for call, ones in found.items()} == {
        "c1": ["allow"],
        "c2": ["allow", "interrupt"],
    }


def test_a_time_out_is_nobodys_decision() -> None:
    shown = lines(receipt_of([decision("deny", by="timeout", who="clock")], COMMAND, result("rejected"), None))
    assert "because nobody answered in time" in shown["decided"]


def test_nothing_of_a_command_is_hidden() -> None:
    """Escapes are in sight, and so is the end of a long command."""
    hidden = m.Action(msgspec.Raw(b"{}"), command="ls . \x1bP ; touch pwned")
    long = m.Action(msgspec.Raw(b"{}"), command="echo " + "x" * 5000 + " ; touch pwned")
    for action in (hidden, long):
        assert lines(receipt_of([decision(action=action)], action, result("ok"), None))["asked"].endswith("touch pwned")
