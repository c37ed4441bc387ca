"""Ended runs: everything about them is found, however long ago they were started."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unspool.core import model as m
from unspool.runs.approvals import OpenRequest
from unspool.runs.live_text import LiveText
from unspool.runs.protocol import PermissionRequest
from unspool.store.run_log import LogEntry, RunLog
from unspool.web import past_runs as past_runs_module
from unspool.web.past_runs import past_runs

READ = 10


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunLog]:
    monkeypatch.setattr(past_runs_module, "_LOG_ENTRIES", READ)
    found = RunLog(tmp_path / "runs.db")
    yield found
    found.close()


def work(log: RunLog, run: str, entries: int = READ) -> None:
    """Write entries, so that earlier ones are no longer among the latest."""
    for _ in range(entries):
        log.record(run, "state", {"state": "working", "reason": None, "error": None})


def ask(log: RunLog, run: str, id: str) -> None:
    request = PermissionRequest(
        id=id, kind="command", tool="Bash", title=id, action=m.Action(raw_input=msgspec.Raw(b"{}"), command=id)
    )
    log.record(run, "asked", {"question": OpenRequest(request=request, digest="d", at=datetime.now(UTC))})


def test_a_run_that_started_long_ago_is_complete(log: RunLog) -> None:
    """Its start, its session and its requests may all be older than the entries that are read for all runs."""
    log.start_run("long", "claude", None, "/work", {})
    log.record("long", "session", {"session": "s1", "left": None})
    ask(log, "long", "open")
    ask(log, "long", "answered")
    work(log, "long")
    log.record("long", "answered", {"request": "answered", "verdict": "allow"})
    log.record("long", "cut_off", {"text": LiveText(turn=3, text="Half a sen", is_cut_off=True)})
    log.end_run("long", "stopped")
    (found,) = past_runs(log)
    assert (found.id, found.agent, found.folder, found.session) == ("long", "claude", "/work", "s1")
    assert found.reason == "stopped"
    assert found.cut_off is not None
    assert found.cut_off.text == "Half a sen"
    assert [opened.request.id for opened in found.asking] == ["open"]


def test_a_run_whose_last_entry_is_its_end_is_found(log: RunLog) -> None:
    log.start_run("long", "codex", "s1", "/work", {})
    work(log, "long")
    log.end_run("long", "stopped")
    assert [(one.agent, one.session) for one in past_runs(log)] == [("codex", "s1")]


def test_text_before_the_next_message_is_not_cut_off(log: RunLog) -> None:
    log.start_run("r", "claude", "s1", "/work", {})
    log.record("r", "cut_off", {"text": LiveText(turn=1, text="Half", is_cut_off=True)})
    log.record("r", "taken_up", {"message": "m1"})
    log.end_run("r", "stopped")
    assert [one.cut_off for one in past_runs(log)] == [None]


def test_runs_are_listed_from_the_last_to_the_first_without_those_that_run(log: RunLog) -> None:
    for run in ("a", "b", "c"):
        log.start_run(run, "claude", run, "/work", {})
    for run in ("b", "a"):
        log.end_run(run, "stopped")
    assert [one.id for one in past_runs(log)] == ["a", "b"]


def test_only_runs_that_ended_lately_are_read(log: RunLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is never removed, so the work for a page must not grow with it."""
    log.start_run("old", "claude", "s1", "/work", {})
    log.end_run("old", "stopped")
    log.start_run("current", "claude", "s2", "/work", {})
    work(log, "current", 5 * READ)
    read: list[LogEntry] = []
    entries = log.entries

    def counted(*given: Any) -> list[LogEntry]:
        found = entries(*given)
        read.extend(found)
        return found

    monkeypatch.setattr(log, "entries", counted)
    assert past_runs(log) == []
    assert len(read) == READ
