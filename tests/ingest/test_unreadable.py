"""An error of the file system is not a change of a file: nothing stored is lost, and the next run reads the rest."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from unspool.core import model as m
from unspool.ingest import session as session_module
from unspool.ingest.sync import Report, Syncer
from unspool.ingest.watch import Watcher
from unspool.store import Store
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.filters import SessionFilter
from unspool.testing import ClaudeLog, call

from ..file_faults import ERRORS, FileCall, Which, failing
from ..store.contents import contents, difference, fresh, synced
from ..store.homes import AGENTS, append, claude_log, log_of, put

CALLS: tuple[FileCall, ...] = ("open", "read", "stat")


def run_failing(store: Store, home: Path, which: Which, code: int = errno.EIO) -> Report:
    """Sync while some calls fail."""
    with failing(home, which, code).active():
        return Syncer(store, home).run()


def heals(store: Store, home: Path, folder: Path) -> bool:
    """Whether one more run makes the store like a new one."""
    synced(store, home)
    assert store.files.unreadable() == {}
    return difference(contents(store), fresh(folder, home)) == ""


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("at", CALLS)
@pytest.mark.parametrize("name", ERRORS)
def test_a_known_session_that_grew_keeps_what_is_stored(
    store: Store, home: Path, tmp_path: Path, agent: str, at: FileCall, name: str
) -> None:
    """Whether it cannot be looked at, opened or read. It is reported, and read when it can be."""
    path = log_of(agent, 3).write(home)
    other = log_of(agent, 3, "other").write(home)
    synced(store, home)
    before = contents(store)["sessions"]
    log_of(agent, 9).write(home)
    report = run_failing(store, home, lambda kind, where: kind == at and where == path, ERRORS[name])
    (why,) = report.failures.values()
    assert str(path) in why
    assert os.strerror(ERRORS[name]) in why
    now = contents(store)["sessions"]
    assert {name: session["record"] for name, session in now.items()} == {
        name: session["record"] for name, session in before.items()
    }
    append(other, b"")
    assert heals(store, home, tmp_path)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_that_is_unreadable_at_first_sight_is_read_later(
    store: Store, home: Path, tmp_path: Path, agent: str
) -> None:
    """It does not count as read, and the others are stored."""
    path = log_of(agent).write(home)
    log_of(agent, 3, "other").write(home)
    for _ in range(2):
        report = run_failing(store, home, lambda kind, where: where == path and kind != "stat", errno.EACCES)
        assert len(report.failures) == 1
        assert store.sessions.count() == 1
    assert store.files.at(str(path)) is None
    assert heals(store, home, tmp_path)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_folder_that_cannot_be_listed_deletes_nothing(store: Store, home: Path, tmp_path: Path, agent: str) -> None:
    """Its sessions are not gone."""
    path = log_of(agent).write(home)
    synced(store, home)
    report = run_failing(store, home, lambda kind, where: kind == "scandir" and where == path.parent)
    assert report.gone == 0
    assert str(path.parent) in report.failures
    assert store.sessions.count(SessionFilter(is_gone=True)) == 0
    assert heals(store, home, tmp_path)


@pytest.fixture
def with_subagent(home: Path) -> tuple[ClaudeLog, Path, Path]:
    """A session that has started a sub-agent, its file and that of the sub-agent."""
    log, sub = ClaudeLog(), ClaudeLog(agent="a1")
    log.user("start")
    log.model(call("c1", "Task", prompt="look around"))
    log.result("c1", "found it", toolUseResult={"agentId": "a1"})
    sub.user("look around")
    sub.model("found it")
    return log, log.write(home), sub.write(home)


def test_a_subagent_that_cannot_be_read_leaves_its_parent_alone(
    store: Store, home: Path, tmp_path: Path, with_subagent: tuple[ClaudeLog, Path, Path]
) -> None:
    """What the parent says about it may come from its file."""
    log, _, sub = with_subagent
    synced(store, home)
    started = _subagents(store, log)
    assert len(started) == 1
    for which in (
        lambda kind, where: kind in ("open", "stat") and where == sub,
        lambda kind, where: kind == "scandir" and where == sub.parent,
    ):
        before = store.sessions.find(f"{log.session}/a1").messages
        log.user("more")
        log.write(home)
        report = run_failing(store, home, which)
        assert report.failures
        assert _subagents(store, log) == started
        assert store.sessions.find(f"{log.session}/a1").messages == before
        assert heals(store, home, tmp_path)


def _subagents(store: Store, log: ClaudeLog) -> list[m.Subagent]:
    return store.messages.load_session(store.sessions.find(log.session).id).subagents


def test_a_file_that_stays_unreadable_stops_no_other_session(store: Store, home: Path, tmp_path: Path) -> None:
    """The others wait for one run. Afterwards they are read without it, and once more when it can be read."""
    bad = log_of("claude").write(home)
    good = claude_log(3, "other of claude")
    good.write(home)
    synced(store, home)
    counts = []
    for turns in (5, 7, 9):
        log_of("claude", turns).write(home)
        good = claude_log(turns, "other of claude")
        good.write(home)
        report = run_failing(store, home, lambda kind, where: kind == "open" and where == bad)
        assert f"{bad}: {os.strerror(errno.EIO)}" in report.failures.values()
        counts.append(store.sessions.find(good.session).messages)
    assert counts == [12, 28, 36]
    assert store.sessions.find(claude_log(name="one of claude").session).messages == 12
    assert heals(store, home, tmp_path)
    assert Syncer(store, home).run().changed == 0


def test_a_large_session_that_fails_at_its_end_is_rolled_back(
    store: Store, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first messages were written already."""
    path = log_of("claude", 3).write(home)
    synced(store, home)
    before = contents(store)
    log_of("claude", 3, "other").write(home)
    put(path, log_of("claude", 400).data.replace(b"number", b"figure"))
    monkeypatch.setattr(session_module, "_MOST_HELD", 1000)

    def is_late(kind: FileCall, where: Path) -> bool:
        """Whether the file is read although the first part of the session was written."""
        database = store.database
        assert isinstance(database, SqliteDatabase)
        return kind == "read" and where == path and database._connection.in_transaction

    report = run_failing(store, home, is_late)
    name = claude_log(name="one of claude").session
    assert list(report.failures) == [name]
    key = f"claude {name}"
    assert contents(store)["sessions"][key]["record"] == before["sessions"][key]["record"]
    assert heals(store, home, tmp_path)


def test_a_file_that_vanishes_while_it_is_read_is_gone_and_stays(store: Store, home: Path) -> None:
    """Deleted between the scan and the reading: no failure, and nothing of it is lost."""
    path = log_of("claude", 3).write(home)
    synced(store, home)
    log_of("claude", 9).write(home)
    opened = 0

    def vanish(kind: FileCall, where: Path) -> bool:
        nonlocal opened
        opened += kind == "open" and where == path
        if opened == 2:
            path.unlink(missing_ok=True)
        return False

    first = run_failing(store, home, vanish)
    assert not path.exists()
    assert first.failures == {}
    assert first.gone + synced(store, home).gone == 1
    (row,) = store.sessions.select()
    assert row.messages == 12


@pytest.mark.parametrize("at", CALLS)
def test_a_watched_session_keeps_what_is_stored(store: Store, home: Path, tmp_path: Path, at: FileCall) -> None:
    """The line that could not be read is stored by the next notification, or the next sync."""
    path = log_of("claude", 3).write(home)
    watcher = Watcher(store, home)
    watcher.read_all()
    append(path, log_of("claude", 4).data[path.stat().st_size :])
    list(watcher._steps({path}))
    for turns in (5, 6):
        data = log_of("claude", turns).data[path.stat().st_size :]
        before = store.sessions.find(claude_log(name="one of claude").session).messages
        append(path, data)
        with failing(home, lambda kind, where: kind == at and where == path).active():
            list(watcher._steps({path}))
        assert store.sessions.find(claude_log(name="one of claude").session).messages == before
        list(watcher._steps({path}))
        assert store.sessions.find(claude_log(name="one of claude").session).messages == turns * 4
    assert heals(store, home, tmp_path)


def test_a_watcher_keeps_its_folders_while_the_disk_fails(store: Store, home: Path, tmp_path: Path) -> None:
    """It looks for them now and then, and must not end or forget them."""
    path = log_of("claude", 3).write(home)
    watcher = Watcher(store, home)
    watcher.read_all()
    with failing(home, lambda kind, _: kind in ("stat", "scandir")).active():
        watcher._find_homes()
    append(path, log_of("claude", 4).data[path.stat().st_size :])
    watcher.ingest({path})
    assert store.sessions.find(claude_log(name="one of claude").session).messages == 16
    assert heals(store, home, tmp_path)
