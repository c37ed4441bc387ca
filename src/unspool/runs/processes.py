"""Identifies the processes of an agent, and stops an agent together with everything it started.

Agents start programs in separate process groups and sessions, so a signal to the agent's group does not reach them.
They are found by their parents, by the groups and sessions they lead, and by a mark in their environment, which
processes inherit and keep after their parent has exited.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

MARK = "UNSPOOL_AGENT_MARK"
"""The environment variable that identifies everything an agent started."""
PROC = Path("/proc")
POLITE_SECONDS = 10.0
TERM_SECONDS = 5.0
KILL_SECONDS = 30.0
"""No process survives SIGKILL, but on a busy machine or a slow disk it can take a while."""
PS_SECONDS = 60.0
FIRST_LOOK_SECONDS = 0.01
LONGEST_LOOK_SECONDS = 0.2
_ENVIRONMENT_ATTEMPTS = 20
_ENVIRONMENT_PAUSE = 0.005
GONE_STATES = ("Z", "X", "x")
_NEVER = -1.0
HAS_PROC = (PROC / "self" / "stat").exists()


class Process(NamedTuple):
    """An entry of the process table."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    started: float
    """Seconds since boot on Linux, since 1970 elsewhere; only used for comparison."""

    @property
    def is_gone(self) -> bool:
        """Whether it has exited and is waiting for its parent to collect its exit status."""
        return self.state.startswith(GONE_STATES)


# --- one process -----------------------------------------------------------------------------------------------------


def start_time(pid: int) -> float | None:
    """Return when a process was started, which identifies it together with its id. None if there is no such process."""
    found = _look_up(pid)
    return None if found is None or found.is_gone else found.started


def is_alive(pid: int, started: float | None) -> bool:
    """Return whether a process with this id is running and, if `started` is known, was started at that time."""
    found = _look_up(pid)
    if found is None or found.is_gone:
        return False
    return started is None or found.started == started


def ancestry(pid: int) -> tuple[int, ...]:
    """Return a process and its ancestors, without the first process of the system."""
    found: list[int] = []
    while pid > 1 and pid not in found and (process := _look_up(pid)) is not None:
        found.append(pid)
        pid = process.parent
    return tuple(found)


def _look_up(pid: int) -> Process | None:
    if pid <= 0:
        return None
    if HAS_PROC:
        return _from_proc(pid)
    return next(_from_ps("-p", str(pid)), None)


def _from_proc(pid: int) -> Process | None:
    try:
        fields = _stat_fields(PROC / str(pid))
    except OSError:
        return None
    if len(fields) < 20:
        return None
    ticks = int(fields[19])
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), fields[0], ticks / os.sysconf("SC_CLK_TCK"))


def _stat_fields(folder: Path) -> list[str]:
    """Return the fields of `stat` from the third one on, as numbered in proc(5)."""
    text = (folder / "stat").read_text(errors="replace")
    # The name of the program is in parentheses and may contain anything, including spaces and parentheses.
    return text[text.rfind(")") + 2 :].split()


def _from_ps(*which: str) -> Iterator[Process]:
    """Yield processes on systems without /proc. The session id is not portable, so the group id is used instead."""
    command = ["ps", "-o", "pid=,ppid=,pgid=,stat=,lstart=", *which]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=PS_SECONDS, check=False, env={**os.environ, "LC_ALL": "C"}
        )
        for line in result.stdout.splitlines():
            fields = line.split()
            with contextlib.suppress(ValueError, IndexError):
                started = datetime.strptime(" ".join(fields[4:9]), "%a %b %d %H:%M:%S %Y").timestamp()
                group = int(fields[2])
                yield Process(int(fields[0]), int(fields[1]), group, group, fields[3], started)


# --- a process and everything it started -----------------------------------------------------------------------------


class Family:
    """A process and all its descendants. Each look-up reads the process table, and known processes are remembered."""

    def __init__(self, pid: int | None, started: float | None = None, mark: str | None = None) -> None:
        self._known: dict[int, float] = {}
        self.mark = mark
        if pid is None:
            return
        if pid <= 1 or pid == os.getpid():
            raise ValueError(
                f"process {pid} was not started by unspool: stopping it would stop the machine, or unspool itself"
            )
        self.mark = mark or _mark_of(pid)
        if started is None:
            found = _look_up(pid)
            started = found.started if found is not None else _NEVER
        self._known[pid] = started

    def living(self) -> list[Process]:
        """Return the running processes, youngest first, so that children are signalled before their parents."""
        table = {process.pid: process for process in _table() if process.pid != os.getpid()}
        for pid, started in list(self._known.items()):
            found = table.get(pid)
            if found is not None and found.started != started:
                del self._known[pid]  # The id has been reused by another process.
        while True:
            more = [each for each in table.values() if each.pid not in self._known and self._belongs(each)]
            if not more:
                break
            self._known.update((each.pid, each.started) for each in more)
        found_alive = [each for pid, each in table.items() if pid in self._known and not each.is_gone]
        return sorted(found_alive, key=lambda each: (each.started, each.pid), reverse=True)

    def _belongs(self, process: Process) -> bool:
        # A group and a session have the id of the process that leads them, even after it has exited.
        near = (process.parent, process.group, process.session)
        return any(id in self._known for id in near) or (self.mark is not None and _has_mark(process.pid, self.mark))

    def signal(self, number: int) -> None:
        """Send a signal to all of them; processes of a group that belongs to the family get it together."""
        living = self.living()
        groups = {each.group for each in living if each.group in self._known} - {os.getpgrp()}
        for group in groups:
            with contextlib.suppress(OSError):
                os.killpg(group, number)
        for process in living:
            if process.group not in groups:
                with contextlib.suppress(OSError):
                    os.kill(process.pid, number)

    async def wait(self, seconds: float) -> bool:
        """Wait until none of them is running; return False if some still are after `seconds`."""
        until = time.monotonic() + seconds
        pause = FIRST_LOOK_SECONDS
        while self.living():
            if time.monotonic() >= until:
                return False
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LONGEST_LOOK_SECONDS)
        return True


def _table() -> Iterator[Process]:
    if not HAS_PROC:
        yield from _from_ps("-A")
        return
    for name in os.listdir(PROC):
        if name.isdigit():
            process = _from_proc(int(name))
            if process is not None:
                yield process


def _has_mark(pid: int, mark: str) -> bool:
    return f"{MARK}={mark}".encode() in _environment(pid)


def _mark_of(pid: int) -> str | None:
    """Return the mark of a process, unless it is our own: an agent may have started unspool itself."""
    mark = _any_mark(pid)
    return mark if mark and mark != os.environ.get(MARK) else None


def _any_mark(pid: int) -> str:
    marks = (entry for entry in _environment(pid) if entry.startswith(f"{MARK}=".encode()))
    return next(marks, b"").decode(errors="replace").partition("=")[2]


def _environment(pid: int) -> list[bytes]:
    """Return the environment that a process was started with.

    While a process starts to execute another program, its environment reads as empty for a moment. Without another
    attempt, the supervisor would miss a process that it has to stop.
    """
    folder = PROC / str(pid)
    for attempt in range(_ENVIRONMENT_ATTEMPTS):
        try:
            found = _read_environment(folder)
            if found or not os.readlink(folder / "exe") or _has_empty_environment(folder):
                return found.split(b"\0")
        except OSError:
            return []  # It has exited, is not readable, or is a kernel thread, which has no program.
        time.sleep(_ENVIRONMENT_PAUSE * (attempt > 0))
    return []


def _has_empty_environment(folder: Path) -> bool:
    """Return whether a process was started without any variables."""
    # The addresses where the variables start and end. They are 0 until the program is executing.
    addresses = _stat_fields(folder)[47:49]
    return len(addresses) == 2 and addresses[0] == addresses[1] != "0"


def _read_environment(folder: Path) -> bytes:
    return (folder / "environ").read_bytes()


def agent_marks(pid: int) -> frozenset[str]:
    """Return the marks of the agents that a process belongs to: its own, and those of its ancestors."""
    found = {os.environ.get(MARK, "")} if pid == os.getpid() else set()
    seen: set[int] = set()
    while pid > 1 and pid not in seen:
        seen.add(pid)
        if HAS_PROC:
            found.add(_any_mark(pid))
        process = _look_up(pid)
        pid = process.parent if process is not None else 0
    return frozenset(found - {""})


def acts_for_agent(pid: int, server: int) -> bool:
    """Return whether a process belongs to an agent, other than one that has started the server itself."""
    return bool(agent_marks(pid) - agent_marks(server))


def holders_of_socket(inode: int) -> Iterator[int]:
    """Yield the processes that have a socket open, as far as this user can see."""
    wanted = f"socket:[{inode}]"
    for name in filter(str.isdigit, os.listdir(PROC)):
        folder = f"{PROC}/{name}/fd"
        with contextlib.suppress(OSError):
            if any(_link(f"{folder}/{number}") == wanted for number in os.listdir(folder)):
                yield int(name)


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""  # It has been closed.


async def end_group(
    pid: int | None,
    polite: Callable[[], Awaitable[None]] | None = None,
    *,
    started: float | None = None,
    mark: str | None = None,
    polite_seconds: float | None = None,
    term_seconds: float | None = None,
    kill_seconds: float | None = None,
) -> bool:
    """Stop a process and everything it started: politely, then with SIGTERM, then with SIGKILL.

    Returns whether all of them have exited. `polite` asks the program to exit by itself, for example by closing its
    input. `started` is the result of `start_time` when it was started, so that another process with the same id is left
    alone. `mark` is the value of the variable `MARK` in its environment, by which its children are found even if the
    process itself is no longer known; for a running process it is looked up. The parent still has to wait for the
    process, or a zombie remains.
    """
    polite_seconds = POLITE_SECONDS if polite_seconds is None else polite_seconds
    term_seconds = TERM_SECONDS if term_seconds is None else term_seconds
    kill_seconds = KILL_SECONDS if kill_seconds is None else kill_seconds
    family = Family(pid, started, mark)
    family.living()  # Remembers the processes, so that they are found later even if their parents have exited.
    if polite is not None:
        until = time.monotonic() + polite_seconds
        with contextlib.suppress(Exception):
            await asyncio.wait_for(polite(), polite_seconds)
        while pid is not None and is_alive(pid, started) and time.monotonic() < until:
            family.living()
            await asyncio.sleep(LONGEST_LOOK_SECONDS / 4)
    try:
        if family.living():
            family.signal(signal.SIGTERM)
            await family.wait(term_seconds)
    finally:
        # Even if the caller is cancelled, nothing is left running.
        if family.living():
            family.signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    until = time.monotonic() + kill_seconds
    while not await family.wait(LONGEST_LOOK_SECONDS):
        family.signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        if time.monotonic() >= until:
            return False
    return True
