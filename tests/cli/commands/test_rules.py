"""`unspool rules`: suggestions from the decisions on this computer."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from unspool.core import model as m
from unspool.core.decisions import RecordedDecision
from unspool.store.decision_log import FILE_NAME
from unspool.store.run_log import RunLog

from ..run import Run


def test_suggestions_are_printed_with_their_evidence(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path))
    assert "suggest no rules yet" in run("rules").err
    log = RunLog(tmp_path / FILE_NAME)
    log.start_run("r", "codex", "s", "/", {})
    for number in range(7):
        decision = RecordedDecision(
            at=datetime(2026, 5, 1, number, tzinfo=UTC),
            agent="codex",
            session="s",
            request=f"q{number}",
            call_ids=[f"c{number}"],
            tool="shell",
            kind="command",
            verdict="allow",
            by="user",
            action=m.Action(msgspec.Raw(b"{}"), command="go vet"),
        )
        log.record_decision("r", decision, {})
    log.close()
    shown = run("rules").out
    assert "You allowed `go vet` 7 times and never denied it" in shown
    assert 'prefix_rule(pattern=["go", "vet"], decision="allow")' in shown
    assert "and 2 earlier" in shown
    assert [record["count"] for record in run("rules", "--json").records] == [7]
