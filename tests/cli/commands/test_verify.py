"""`unspool verify`: what it prints, and its exit codes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.store.test_decision_log import denied
from tests.store.test_decision_verify import older_log, tamper
from unspool.runs.log import RunLog
from unspool.store.decision_log import FILE_NAME

from ..run import Run


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory."""
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path))
    return tmp_path


def test_nothing_was_recorded(run: Run, data: Path) -> None:
    """That is not a fault."""
    done = run("verify")
    assert (done.code, done.out, done.err) == (0, "No decisions have been recorded on this computer\n", "")
    assert list(data.glob("*.db")) == [], "and nothing is created"


def test_an_older_log_that_continues(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the chain covers and what it does not, and the newest entry, which can be checked later."""
    older_log(data / FILE_NAME, monkeypatch)
    assert run("verify").lines == ["Not covered: 2 decisions from before the log was protected"]
    with closing(RunLog(data / FILE_NAME)) as log:
        log.record_decision("run", denied(), {})
    done = run("verify")
    assert done.code == 0
    assert done.lines[:2] == [
        "✓ 1 decision: complete and unchanged",
        "Not covered: 2 decisions from before the log was protected",
    ]
    newest = done.lines[2].removeprefix("Newest entry: ")
    assert run("verify", "--expect", newest).code == 0
    assert run("verify", "--expect", "4:0000").code == 1
    assert run("verify", "--expect", "four").code == 2


def test_a_changed_log(run: Run, data: Path) -> None:
    """The first fault comes first, in words and as JSON."""
    with closing(RunLog(data / FILE_NAME)) as log:
        for _ in range(3):
            log.record_decision("run", denied(who="ana\x1b[2J", tool="Bash"), {})
    tamper(data, "DELETE FROM decision WHERE id > 3", "UPDATE decision SET run = '' WHERE id = 2")
    done = run("verify")
    assert done.code == 1
    assert done.lines[:3] == [
        "✗ Entry 2 (deny Bash by ana, 2026-03-01 00:00 UTC) was changed after it was written",
        "✗ Entry 4 is missing at the end: decisions.head names entry 4",
        "The log of decisions was changed: 2 faults, the first one on top",
    ]
    done = run("verify", "--json")
    (found,) = done.records
    assert (done.code, [fault["kind"] for fault in found["faults"]]) == (1, ["changed", "truncated"])
