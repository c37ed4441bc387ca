"""The log of decisions: written by the log of runs, read by everybody else."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import unspool
from unspool.core.decisions import EVIDENCE, RecordedDecision
from unspool.ingest import sync_schedule, watch, writer
from unspool.ingest.sync import Syncer
from unspool.library import Library
from unspool.store import decision_log
from unspool.store.decision_log import FILE_NAME, DecisionChanges, recorded_decisions
from unspool.store.filters import SessionFilter
from unspool.store.run_log import RunLog
from unspool.testing import ClaudeLog, call

from .contents import new_store


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunLog]:
    """The log in the data directory."""
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path))
    opened = RunLog(tmp_path / FILE_NAME)
    yield opened
    opened.close()


def denied(session: str | None = "s", **more: Any) -> RecordedDecision:
    """A decision about the call `a`."""
    given: dict[str, Any] = {"by": "user", "request": "r", "verdict": "deny", **more}
    at = datetime(2026, 3, 1, tzinfo=UTC)
    return RecordedDecision(at=at, agent="claude", session=session, call_ids=["a"], **given)


def with_a_call(home: Path) -> ClaudeLog:
    """A session with the call `a`."""
    session = ClaudeLog()
    session.user("do it")
    session.model(call("a", command="rm -r ."), reply="one")
    session.write(home)
    return session


def test_a_new_decision_counts_at_once(log: RunLog) -> None:
    """However often the log was read before, and while it is being written to."""
    assert recorded_decisions("claude", "s") == []
    for number in range(20):
        log.record_decision("run", denied(reason=str(number)), {})
        assert [one.reason for one in recorded_decisions("claude", "s")] == [str(each) for each in range(number + 1)]
    assert recorded_decisions("claude", "another") == []


def test_an_unchanged_log_is_read_once(log: RunLog, tmp_path: Path) -> None:
    """Then all decisions are remembered until its files look different."""
    log.record_decision("run", denied(reason="first"), {})
    long_ago = time.time() - 1000
    for path in tmp_path.glob(f"{FILE_NAME}*"):
        os.utime(path, (long_ago, long_ago))
    first = recorded_decisions("claude", "s")
    assert [one.reason for one in first] == ["first"]
    assert recorded_decisions("claude", "s")[0] is first[0]
    log.record_decision("run", denied(reason="second"), {})
    assert [one.reason for one in recorded_decisions("claude", "s")] == ["first", "second"]


def test_a_session_that_becomes_known_later(log: RunLog) -> None:
    """The decisions of its run belong to it, those of other runs do not."""
    log.start_run("one", "claude", None, "/home/dev", {})
    for run in ("one", "two"):
        log.record_decision(run, denied(None, reason=run), {})
    log.set_session("one", "s")
    assert [(one.reason, one.session) for one in recorded_decisions("claude", "s")] == [("one", "s")]
    assert recorded_decisions("claude", "s") == log.decisions("claude", "s")


def test_a_log_that_cannot_be_read_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a session say what they can."""
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path))
    (tmp_path / FILE_NAME).write_bytes(b"no database at all, " * 100)
    assert recorded_decisions("claude", "s") == []


def test_reading_a_session_depends_on_its_arguments_alone(log: RunLog, tmp_path: Path) -> None:
    """A decision in the data directory changes nothing, unless it is passed as evidence."""
    session = ClaudeLog()
    session.user("do it")
    session.model(call("a", command="rm -r ."), reply="one")
    path = session.write(tmp_path / "home")
    before = unspool.load(path)
    streamed = list(unspool.stream(path))
    log.record_decision("run", denied(session.session, reason="Not all of it."), {})
    assert unspool.load(path) == before
    assert list(unspool.stream(path)) == streamed
    library = Library(tmp_path / "home")
    assert library.load(library.find(session.session)) == before
    assert before.rejections == []
    with_evidence = unspool.load(path, evidence=recorded_decisions)
    assert [(one.reason, one.evidence) for one in with_evidence.rejections] == [("Not all of it.", EVIDENCE)]
    assert list(unspool.stream(path, evidence=recorded_decisions)) != streamed
    library = Library(tmp_path / "home", evidence=recorded_decisions)
    assert library.load(library.find(session.session)) == with_evidence
    assert unspool.load(path) == before, "libraries that are shared between calls do not share evidence"


def test_ingestion_uses_recorded_decisions(log: RunLog, tmp_path: Path) -> None:
    """What the store holds of a session is what reading it with evidence gives."""
    session = ClaudeLog()
    session.user("do it")
    session.model(call("a", command="rm -r ."), reply="one")
    path = session.write(tmp_path / "home")
    log.record_decision("run", denied(session.session), {})
    store = new_store(tmp_path / "store.db")
    Syncer(store, tmp_path / "home").run()
    (row,) = store.sessions.select()
    assert store.messages.load_session(row.id) == unspool.load(path, evidence=recorded_decisions)
    assert row.counts["rejection"] == 1
    store.close()


def test_a_decision_is_enough_to_read_a_session_again(log: RunLog, tmp_path: Path) -> None:
    """A killed server records its interruptions when it starts again; the files have not changed since."""
    session = with_a_call(tmp_path / "home")
    store = new_store(tmp_path / "store.db")
    Syncer(store, tmp_path / "home").run()
    log.record_decision("run", denied(session.session), {})
    assert Syncer(store, tmp_path / "home").run().changed == 1
    (row,) = store.sessions.select()
    assert row.counts["rejection"] == 1
    assert Syncer(store, tmp_path / "home").run().changed == 0
    store.close()


def unreadable(path: Path) -> None:
    """Fail to open the log."""
    raise sqlite3.OperationalError("disk I/O error")


def test_decisions_that_cannot_be_read_are_applied_when_they_can_be(
    log: RunLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether they fail before a session is read or after that; and what the store has stays as it is."""
    session = with_a_call(tmp_path / "home")
    log.record_decision("run", denied(session.session), {})
    store = new_store(tmp_path / "store.db")

    def rejections() -> int:
        (row,) = store.sessions.select()
        return row.counts.get("rejection", 0)

    with monkeypatch.context() as patch:
        patch.setattr(writer, "decisions_if_readable", lambda *_: None)
        Syncer(store, tmp_path / "home").run()
    assert rejections() == 0
    assert Syncer(store, tmp_path / "home").run().changed == 1
    assert rejections() == 1
    with monkeypatch.context() as patch:
        patch.setattr(decision_log, "open_read_only", unreadable)
        other = ClaudeLog("other")
        other.user("another one")
        project = other.write(tmp_path / "elsewhere").parent
        project.rename(tmp_path / "home/.claude/projects/-another")
        report = Syncer(store, tmp_path / "home").run()
        assert (report.new, report.changed) == (1, 0)
        assert store.sessions.select(SessionFilter(name=session.session))[0].counts["rejection"] == 1
    Syncer(store, tmp_path / "home").run()
    assert (Syncer(store, tmp_path / "home").run()).changed == 0
    store.close()


def test_new_decisions_are_noticed(log: RunLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, also after the log could not be read; other entries of the log are none."""
    changes = DecisionChanges()
    changes.are_new()
    assert not changes.are_new()
    log.start_run("run", "claude", "s", "/home/dev", {})
    assert not changes.are_new()
    log.record_decision("run", denied(), {})
    with monkeypatch.context() as patch:
        patch.setattr(decision_log, "open_read_only", unreadable)
        assert not changes.are_new()
    assert changes.are_new()
    assert not changes.are_new()
    long_ago = time.time() - 1000
    for path in tmp_path.glob(f"{FILE_NAME}*"):
        os.utime(path, (long_ago, long_ago))
    assert not changes.are_new()
    log.record_decision("run", denied(), {})
    assert changes.are_new()


def test_a_watched_session_gets_a_decision_though_no_file_changes(
    log: RunLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync of everything may be minutes away on a busy computer."""
    session = with_a_call(tmp_path / "home")
    store = new_store(tmp_path / "store.db")
    monkeypatch.setattr(sync_schedule, "_FULL_SYNC_SECONDS", 1e9)
    watcher = watch.Watcher(store, tmp_path / "home")
    stop = threading.Event()
    decided = False
    for _ in watcher.follow(stop):
        (row,) = store.sessions.select()
        if row.counts.get("rejection"):
            stop.set()
        elif not decided:
            decided = True
            log.record_decision("run", denied(session.session), {})
    assert row.counts["rejection"] == 1
    store.close()
