"""Other processes give the same result as this one."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import subprocess
import sys
import tempfile
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

import unspool
from unspool.agents import AGENTS
from unspool.ingest import folder_sync, sync
from unspool.ingest.folder_sync import FolderSync
from unspool.ingest.helper_process import can_share
from unspool.ingest.session import SessionIngest
from unspool.ingest.sync import Syncer
from unspool.library import Library

from ..store.contents import new_store
from ..waiting import PATIENCE
from .test_tail import equals_fresh

needs_fork = pytest.mark.skipif(not can_share(), reason="needs fork and no other threads")


@pytest.fixture
def always_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start other processes however little there is to do."""
    monkeypatch.setattr(sync, "WORTH_IT", 0)
    # Threads of other tests in this process do not matter.
    monkeypatch.setattr(sync, "can_share", lambda: True)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


@needs_fork
@pytest.mark.usefixtures("always_shares")
def test_several_processes_give_the_same_store(tmp_path: Path) -> None:
    """However little there is to do."""
    store = new_store(tmp_path / "sessions.db")
    report = Syncer(store, unspool.samples(), may_share=True).run()
    assert report.failures == {}
    assert equals_fresh(store, unspool.samples())
    assert Syncer(store, unspool.samples(), may_share=True).run().new == 0
    store.close()


@needs_fork
@pytest.mark.usefixtures("always_shares")
def test_nothing_stays_in_memory_of_sessions_that_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With many sessions, their files and names would need most of the memory."""
    left = []
    finish = FolderSync.finish

    def look(folder: FolderSync) -> None:
        left.append([*folder.work, *folder._changed.keys() - {change.stat.path for change in folder._others}])
        finish(folder)

    monkeypatch.setattr(FolderSync, "finish", look)
    store = new_store(tmp_path / "sessions.db")
    Syncer(store, unspool.samples(), may_share=True).run()
    assert left == [[], [], []]
    store.close()


@needs_fork
@pytest.mark.usefixtures("always_shares")
def test_sessions_of_a_failed_transaction_are_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though they were released, and the one that cannot be written is archived."""
    store = new_store(tmp_path / "sessions.db")
    finish, count = SessionIngest.finish, 0

    def fail_once(self: SessionIngest, *values: Any) -> None:
        nonlocal count
        count += 1
        if count == 4:
            raise ValueError("this session cannot be written")
        finish(self, *values)

    monkeypatch.setattr(SessionIngest, "finish", fail_once)
    report = Syncer(store, unspool.samples(), may_share=True).run()
    assert len(report.failures) == 1
    ((failed, why),) = report.failures.items()
    assert "this session cannot be written" in why
    others = {ref.id for ref in Library(unspool.samples()).refs()} - {failed}
    assert others <= {row.name for row in store.sessions.select()}
    on_disk = {str(log.path) for ref in Library(unspool.samples()).refs() for log in [AGENTS[ref.agent].log(ref.path)]}
    assert on_disk <= {row.path for row in store.files.all().values()}
    store.close()


@pytest.mark.parametrize(
    ("owner", "name", "successes", "code"),
    [
        (tempfile, "TemporaryFile", 5, errno.ENOSPC),
        (os, "pipe", 0, errno.EMFILE),
        (os, "pipe", 1, errno.EMFILE),
        (BaseProcess, "start", 0, errno.EAGAIN),
        (BaseProcess, "start", 1, errno.EAGAIN),
    ],
)
@pytest.mark.skipif(not can_share(), reason="needs fork and no other threads")
def test_processes_that_cannot_be_started(
    owner: Any, name: str, successes: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process reads everything: no log is blamed, it is tried once, and nothing is left of the attempt."""
    monkeypatch.setattr(sync, "WORTH_IT", 0)
    monkeypatch.setattr(sync, "can_share", lambda: True)
    monkeypatch.setattr(folder_sync, "list_in_subprocess", lambda home: home.refs())
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    real, calls = getattr(owner, name), 0

    def limited(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > successes:
            raise OSError(code, os.strerror(code))
        return real(*args)

    store = new_store(tmp_path / "sessions.db")
    before = sorted(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, limited)
        report = Syncer(store, unspool.samples(), may_share=True).run()
    assert (report.failures, calls) == ({}, successes + 1)
    assert multiprocessing.active_children() == []
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert gc.get_freeze_count() == 0
    assert equals_fresh(store, unspool.samples())
    store.close()


@pytest.mark.skipif(sys.platform != "linux", reason="workers help only there")
def test_workers_leave_signals_to_their_parent(tmp_path: Path) -> None:
    """Ctrl+C in a terminal reaches them, too: they neither exit nor print a traceback, whenever it comes."""
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, str(tmp_path), str(unspool.samples())],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.stderr, done.stdout, done.returncode) == ("", "{}\n", 0)


_INTERRUPTED = """
import os, signal, sys
from multiprocessing.process import BaseProcess
from pathlib import Path
from unspool.ingest import reader_pool, session_listing, sync
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.store import Store

def interrupted(call):
    def first(*values, **named):
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGINT)
        return call(*values, **named)
    return first

parent = os.getpid()
os.cpu_count = lambda: 2
sync.WORTH_IT = 0
# As soon as it is there, before it is made ready, and when it works.
BaseProcess._bootstrap = interrupted(BaseProcess._bootstrap)
reader_pool._start = interrupted(reader_pool._start)
session_listing._list = interrupted(session_listing._list)
reader_pool._read = interrupted(reader_pool._read)
store = Store(SqliteDatabase(Path(sys.argv[1]) / "store.db", machine=("test", "test")))
print(sync.Syncer(store, sys.argv[2], may_share=True).run().failures)
store.close()
"""


def test_one_process_gives_the_same_store(tmp_path: Path) -> None:
    """The mode for platforms without fork."""
    store = new_store(tmp_path / "sessions.db")
    Syncer(store, unspool.samples()).run()
    assert equals_fresh(store, unspool.samples())
    store.close()


def test_a_system_without_forks() -> None:
    """Windows does not even have the names."""
    code = "from multiprocessing import context; del context.ForkProcess; import unspool.ingest.sync"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stderr, done.returncode) == ("", 0)
