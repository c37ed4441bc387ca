"""What a first sync holds in memory: neither whole sessions nor those that wait for their commit.

Python counts what it allocates, so that the numbers are the same on every machine.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from unspool.agents import AGENTS, SessionRef, SessionSource
from unspool.ingest import reader_pool, sync
from unspool.ingest.read_parts import PartFileError, PartWriter, spooled_results, write_positions
from unspool.ingest.reader_pool import ReaderPool, Task
from unspool.ingest.scan import LogStat, compare
from unspool.ingest.sync import Syncer
from unspool.store.backends import sqlite
from unspool.testing import ClaudeLog

from ..store.contents import new_store
from .test_tail import equals_fresh

_TEXT = 8_000
_WORDS = [f"word{number}" for number in range(500)]


def _write(home: Path, name: str, turns: int) -> int:
    """Write a session with long answers; returns its size."""
    chance = random.Random(name)
    log = ClaudeLog(name)
    for turn in range(turns):
        log.user(f"Question {turn}")
        log.model(" ".join(chance.choices(_WORDS, k=_TEXT // 8)))
    return log.write(home).stat().st_size


def _share_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let other processes read however little there is, also if earlier tests left a thread in this one."""
    monkeypatch.setattr(sync, "WORTH_IT", 0)
    monkeypatch.setattr(sync, "can_share", lambda: True)


def _peak(work: Callable[[], object]) -> int:
    """Bytes that are allocated at once, beyond those that were there before."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _task(home: Path) -> Task:
    (ref,) = AGENTS["claude"].open(home / ".claude").refs()
    changes = compare("claude", AGENTS["claude"].logs(home / ".claude"), {}, lambda _: []).changes
    return Task(0, 0, ref, changes)


def _read(task: Task, path: Path) -> tuple[int, int]:
    """Do what a worker does."""
    source = AGENTS["claude"].open(task.ref.root)
    with open(path, "wb") as file:
        return reader_pool._read(source, "claude", task, PartWriter(file))


def test_a_worker_holds_no_whole_session(tmp_path: Path) -> None:
    """Sessions that are longer by megabytes need little more."""
    peaks, sizes = [], []
    for turns in (200, 800):
        home = tmp_path / str(turns)
        sizes.append(_write(home, "session", turns))
        task = _task(home)
        _read(task, tmp_path / "parts")
        peaks.append(_peak(lambda task=task: _read(task, tmp_path / "parts")))  # type: ignore[misc]
    assert peaks[1] - peaks[0] < 0.1 * (sizes[1] - sizes[0])


def test_parts_are_read_one_at_a_time(tmp_path: Path) -> None:
    """So that the process that writes holds no whole session either."""
    size = _write(tmp_path, "session", 700)
    position = _read(_task(tmp_path), tmp_path / "parts")
    with open(tmp_path / "parts", "r+b") as file:
        file.seek(0, os.SEEK_END)
        for spooled in spooled_results(file.fileno(), write_positions(file, [position])):
            assert sum(1 for _ in spooled.parts()) == spooled.result.parts > 5
            assert _peak(lambda spooled=spooled: [None for _ in spooled.parts()]) < size / 2  # type: ignore[misc]
    assert (tmp_path / "parts").stat().st_size == 0


@pytest.mark.skipif(sys.platform != "linux", reason="workers help only there")
def test_what_is_written_is_not_held_until_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All these sessions share a transaction. Ten times as many of them need little more."""
    _share_always(monkeypatch)
    monkeypatch.setattr(sqlite, "_BUFFERED_CHARACTERS", 1 << 16)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    peaks, sizes = [], []
    for count in (2, 20):
        home = tmp_path / f"home{count}"
        sizes.append(sum(_write(home, f"session {number}", 12) for number in range(count)))
        store = new_store(tmp_path / f"{count}.db")
        peaks.append(_peak(lambda: Syncer(store, home, may_share=True).run()))  # noqa: B023
        assert equals_fresh(store, home)
        store.close()
    assert peaks[1] - peaks[0] < 0.3 * (sizes[1] - sizes[0])


def test_a_worker_forgets_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a source remembers of the files around a session stays while sessions of that folder are read."""
    monkeypatch.setattr(reader_pool, "_REMEMBERED", 3)
    for number in range(10):
        path = tmp_path / ".claude" / "projects" / f"project{number // 5}" / f"{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    root = tmp_path / ".claude"
    refs = [
        SessionRef(agent="claude", id=path.stem, kind="main", root=root, path=path)
        for path in sorted(root.rglob("*.jsonl"))
    ]
    sources = reader_pool._Sources([("claude", root)])
    used = [sources.of(Task(0, position, ref, [])) for position, ref in enumerate(refs)]
    assert [one is other for one, other in pairwise(used)] == [True] * 4 + [False] + [True] * 4


@pytest.mark.skipif(sys.platform != "linux", reason="workers help only there")
def test_a_full_disk_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that writes reads the rest itself, and no session is blamed."""
    _share_always(monkeypatch)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: open("/dev/full", "r+b", buffering=0))  # noqa: SIM115
    for number in range(3):
        _write(tmp_path / "home", f"session {number}", 2)
    store = new_store(tmp_path / "store.db")
    report = Syncer(store, tmp_path / "home", may_share=True).run()
    assert (report.new, report.failures) == (3, {})
    assert equals_fresh(store, tmp_path / "home")
    store.close()


_GROUP_FAULTS: dict[str, Callable[[], object]] = {
    "a full disk": lambda: PartWriter(open("/dev/full", "wb", buffering=0))._dump("x" * 10_000),  # noqa: SIM115
    "a worker that is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "no memory": lambda: bytearray(1 << 62),
}


@pytest.mark.parametrize("fault", _GROUP_FAULTS)
@pytest.mark.skipif(sys.platform != "linux", reason="workers help only there")
def test_a_group_that_no_worker_can_read(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that writes reads it, and whatever else was not read."""
    _share_always(monkeypatch)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(reader_pool, "_AT_ONCE", 1)
    read, this = reader_pool._read, os.getpid()

    def failing(source: SessionSource, agent: str, task: Task, parts: PartWriter) -> tuple[int, int]:
        assert os.getpid() != this
        if task.position == 2:
            _GROUP_FAULTS[fault]()
        return read(source, agent, task, parts)

    monkeypatch.setattr(reader_pool, "_read", failing)
    for number in range(6):
        _write(tmp_path / "home", f"session {number}", 2)
    store = new_store(tmp_path / "store.db")
    report = Syncer(store, tmp_path / "home", may_share=True).run()
    assert (report.new, report.failures) == (6, {})
    assert equals_fresh(store, tmp_path / "home")
    assert multiprocessing.active_children() == []
    store.close()


@pytest.mark.skipif(sys.platform != "linux", reason="workers help only there")
def test_workers_start_before_the_lists_are_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in memory when they start is there once for each of them."""
    for number in range(5):
        _write(tmp_path / "home", f"session {number}", 2)
    sizes = [path.stat().st_size for path in (tmp_path / "home").rglob("*.jsonl")]
    monkeypatch.setattr(sync, "WORTH_IT", max(sizes) + 1)
    monkeypatch.setattr(sync, "can_share", lambda: True)
    looked_at: list[int] = []
    count = 0
    expect, start = ReaderPool.expect, reader_pool._Workers.__init__

    def counted(pool: ReaderPool, log: LogStat) -> None:
        nonlocal count
        count += 1
        expect(pool, log)

    def started(workers: Any) -> None:
        looked_at.append(count)
        start(workers)

    monkeypatch.setattr(ReaderPool, "expect", counted)
    monkeypatch.setattr(reader_pool._Workers, "__init__", started)
    store = new_store(tmp_path / "store.db")
    Syncer(store, tmp_path / "home", may_share=True).run()
    assert (looked_at, count) == ([2], 5)
    assert equals_fresh(store, tmp_path / "home")
    store.close()


def test_a_part_that_cannot_be_written() -> None:
    """It has an error of its own: the file that is read is not at fault."""
    with open("/dev/full", "wb", buffering=0) as file, pytest.raises(PartFileError, match="No space left"):
        PartWriter(file)._dump("x" * 10_000)
