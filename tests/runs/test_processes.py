"""Ending a process means ending all that it started, and nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import PATIENCE, wait_until
from unspool.runs import processes
from unspool.runs.processes import MARK, Family, _has_mark, end_group, is_alive, start_time

from .harness import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals to groups are not known there")


DETACHED = (
    "import os, signal, sys; os.setsid(); print(os.getpid(), file=open(sys.argv[1], 'w'), flush=True); signal.pause()"
)
"""A program that leaves the process session of its parent, and keeps running."""
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a shell in a group of its own; it is ended at the end in any case, and so is what it started."""
    started: list[subprocess.Popen[bytes]] = []
    child_mark: dict[int, str | None] = {}

    def make(script: str, **environment: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            ["/bin/sh", "-c", script], start_new_session=True, env={**os.environ, **environment}, stdin=subprocess.PIPE
        )
        started.append(child)
        child_mark[child.pid] = environment.get(MARK)
        return child

    yield make
    for child in started:
        Family(child.pid, mark=child_mark[child.pid]).signal(signal.SIGKILL)
        child.wait(PATIENCE)
        assert child.stdin is not None
        child.stdin.close()


def pid_in(path: Path) -> int:
    """The id that a script wrote."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path} to be written")
    return int(path.read_text())


def test_a_process_is_named_by_its_id_and_its_start(start: Start) -> None:
    """The same id with another start is another process."""
    child = start("sleep 900")
    began = start_time(child.pid)
    assert began is not None
    assert is_alive(child.pid, began)
    assert is_alive(child.pid, None)
    assert not is_alive(child.pid, began + 1)
    assert is_alive(os.getpid(), start_time(os.getpid()))


def test_a_zombie_is_not_alive(start: Start) -> None:
    """A zombie has an id and does nothing."""
    child = start("exit 0")
    wait_until(lambda: not is_alive(child.pid, None), "its end")
    assert start_time(child.pid) is None
    assert start_time(0) is None


def test_a_group_ends_with_its_leader(start: Start, tmp_path: Path) -> None:
    """Children too."""
    child = start(f"sleep 900 & echo $! > {tmp_path}/child; wait")
    other = pid_in(tmp_path / "child")
    assert run(end_group(child.pid, None, term_seconds=PATIENCE))
    assert child.wait(PATIENCE) == -signal.SIGTERM
    assert not is_alive(other, None)


def test_a_process_is_terminated_before_it_is_killed(start: Start) -> None:
    """A program that ends by itself gets no signal."""
    child = start("read line; exit 7")

    async def close_input() -> None:
        assert child.stdin is not None
        child.stdin.close()

    assert run(end_group(child.pid, close_input, started=start_time(child.pid), polite_seconds=PATIENCE))
    assert child.wait(PATIENCE) == 7


def test_a_process_that_ignores_sigterm_is_killed(start: Start, tmp_path: Path) -> None:
    """One that neither listens nor answers, and ignores SIGTERM, is ended for sure."""
    child = start(f"trap '' TERM INT HUP; echo $$ > {tmp_path}/deaf; while :; do sleep 0.2; done")
    assert pid_in(tmp_path / "deaf") == child.pid

    async def never() -> None:
        await asyncio.sleep(3600)  # never ends by itself

    assert run(end_group(child.pid, never, polite_seconds=0.2, term_seconds=0.3))
    assert child.wait(PATIENCE) == -signal.SIGKILL


def test_processes_that_left_the_group_are_ended(start: Start, tmp_path: Path) -> None:
    """A child in a session of its own, and its orphaned child, do not get away."""
    inner = f"sleep 900 & echo $! > {tmp_path}/inner; wait"
    aside = 'import os,sys; os.setsid(); os.execv("/bin/sh", ["sh", "-c", sys.argv[1]])'
    child = start(f"{sys.executable} -c '{aside}' '{inner}' & read line; exit 0")
    other = pid_in(tmp_path / "inner")

    async def close_input() -> None:
        assert child.stdin is not None
        child.stdin.close()

    assert run(end_group(child.pid, close_input, polite_seconds=PATIENCE))
    assert child.wait(PATIENCE) == 0
    assert not is_alive(other, None)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the mark is read from /proc")
def test_an_orphan_is_recognised_by_its_mark(start: Start, tmp_path: Path) -> None:
    """What started it may be gone for long."""
    child = start(f'({sys.executable} -c "{DETACHED}" {tmp_path}/orphan &) ; exit 0', **{MARK: "of this test"})
    began = start_time(child.pid)
    orphan = pid_in(tmp_path / "orphan")
    child.wait(PATIENCE)
    assert is_alive(orphan, None)
    assert run(end_group(child.pid, None, started=began, mark="of another"))
    assert is_alive(orphan, None)
    assert run(end_group(child.pid, None, started=began, mark="of this test"))
    assert not is_alive(orphan, None)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the mark is read from /proc")
def test_the_mark_of_a_running_process(start: Start, tmp_path: Path) -> None:
    """Whoever ends it later, perhaps another program, need not remember it."""
    child = start(f'({sys.executable} -c "{DETACHED}" {tmp_path}/orphan &) ; sleep 900', **{MARK: "of that test"})
    orphan = pid_in(tmp_path / "orphan")
    assert run(end_group(child.pid, None))
    assert not is_alive(orphan, None)


def test_another_process_with_the_same_id_is_left_alone(start: Start) -> None:
    """Ids are given out again."""
    child = start("sleep 900")
    began = start_time(child.pid)
    assert began is not None
    assert run(end_group(child.pid, None, started=began - 5))
    assert is_alive(child.pid, began)


@pytest.mark.parametrize("pid", [-1, 0, 1, None])
def test_dangerous_process_ids_are_rejected(pid: int | None) -> None:
    """Everything descends from the first process, and from ourselves."""
    pid = os.getpid() if pid is None else pid
    with pytest.raises(ValueError, match="was not started by unspool"):
        run(end_group(pid, None))


def test_ending_a_process_that_is_gone(start: Start) -> None:
    """It may have ended by itself."""
    child = start("exit 0")
    child.wait(PATIENCE)
    assert run(end_group(child.pid, None))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the mark is read from /proc")
def test_a_process_that_is_just_executing_another_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment reads as empty for a moment; that does not mean it has none."""
    read = processes._read_environment
    empty = [b"", b"", b""]
    monkeypatch.setattr(processes, "_read_environment", lambda folder: empty.pop() if empty else read(folder))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={MARK: "mine"})
    try:
        assert _has_mark(child.pid, "mine")
        assert empty == []
    finally:
        child.communicate(b"\n")


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the mark is read from /proc")
def test_a_process_without_an_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for an environment that it does not have would block everyone at every look."""
    read = processes._read_environment
    looks: list[Path] = []

    def look(folder: Path) -> bytes:
        looks.append(folder)
        return read(folder)

    monkeypatch.setattr(processes, "_read_environment", look)
    command = [sys.executable, "-I", "-c", "print(flush=True); input()"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={})
    try:
        assert child.stdout is not None
        child.stdout.readline()  # It is no longer being started.
        assert not _has_mark(child.pid, "mine")
        assert len(looks) == 1
    finally:
        child.communicate(b"\n")
