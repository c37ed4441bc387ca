"""Processes that were started for an agent: whether one is still the same, and how all of them are made to end.

Agents start programs in groups and sessions of their own, so a signal to the group of the agent does not reach them.
They are found by their parents, by the groups and sessions they lead, and by a mark in their environment, which is
inherited even where the parent is gone.
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
"""The environment variable by which everything that an agent started can be recognised."""
PROC = Path("/proc")
POLITE_SECONDS = 10.0
TERM_SECONDS = 5.0
KILL_SECONDS = 30.0
"""Nothing survives SIGKILL, but on a busy machine or a slow disk it can take a while until it is gone."""
PS_SECONDS = 60.0
FIRST_LOOK_SECONDS = 0.01
LONGEST_LOOK_SECONDS = 0.2
_ENVIRONMENT_ATTEMPTS = 20
_ENVIRONMENT_PAUSE = 0.005
GONE_STATES = ("Z", "X", "x")
_NEVER = -1.0
HAS_PROC = (PROC / "self" / "stat").exists()


class Process(NamedTuple):
    """A line of the table of processes."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    started: float
    """On Linux in seconds since the machine was started, elsewhere since 1970: it is only ever compared."""

    @property
    def is_gone(self) -> bool:
        """It has ended and waits for whoever started it to notice."""
        return self.state.startswith(GONE_STATES)


# --- one process -----------------------------------------------------------------------------------------------------


def start_time(pid: int) -> float | None:
    """When a process was started: together with its id this names it for good. None when there is none."""
    found = _look_up(pid)
    return None if found is None or found.is_gone else found.started


def is_alive(pid: int, started: float | None) -> bool:
    """A process with this id runs, and it is the one that was started then (where that is known)."""
    found = _look_up(pid)
    if found is None or found.is_gone:
        return False
    return started is None or found.started == started


def _look_up(pid: int) -> Process | None:
    if pid <= 0:
        return None
    if HAS_PROC:
        return _from_proc(pid)
    return next(_from_ps("-p", str(pid)), None)


def _from_proc(pid: int) -> Process | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name of the program is in parentheses and may hold anything, spaces and parentheses too.
    fields = text[text.rfind(")") + 2 :].split()
    if len(fields) < 20:
        return None
    ticks = int(fields[19])
    return Process(
        pid, int(fields[1]), int(fields[2]), int(fields[3]), fields[0], ticks / os.sysconf("SC_CLK_TCK")
    )  # fmt: skip


def _from_ps(*which: str) -> Iterator[Process]:
    """Where there is no /proc. The id of a session is not portable, so the group stands for it."""
    command = ["ps", "-o", "pid=,ppid=,pgid=,stat=,lstart=", *which]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(
            command, capture_output=True, text=True, timeout=PS_SECONDS, check=False, env={**os.environ, "LC_ALL": "C"}
        )
        for line in told.stdout.splitlines():
            fields = line.split()
            with contextlib.suppress(ValueError, IndexError):
                started = datetime.strptime(" ".join(fields[4:9]), "%a %b %d %H:%M:%S %Y").timestamp()
                group = int(fields[2])
                yield Process(int(fields[0]), int(fields[1]), group, group, fields[3], started)


# --- a process and all it started ------------------------------------------------------------------------------------


class Family:
    """A process, all it started, and all these started; it is looked up anew each time and remembers whom it knew."""

    def __init__(self, pid: int | None, started: float | None = None, mark: str | None = None) -> None:
        self._known: dict[int, float] = {}
        self.mark = mark
        if pid is None:
            return
        if pid <= 1 or pid == os.getpid():
            raise ValueError(
                f"process {pid} was not started by us: all of the machine, or ourselves, would end with it"
            )
        self.mark = mark or _mark_of(pid)
        if started is None:
            found = _look_up(pid)
            started = found.started if found is not None else _NEVER
        self._known[pid] = started

    def living(self) -> list[Process]:
        """Those that run, youngest first, so that whoever would start another one is stopped last."""
        table = {process.pid: process for process in _table() if process.pid != os.getpid()}
        for pid, started in list(self._known.items()):
            found = table.get(pid)
            if found is not None and found.started != started:
                del self._known[pid]  # The id belongs to a stranger meanwhile.
        while True:
            more = [each for each in table.values() if each.pid not in self._known and self._belongs(each)]
            if not more:
                break
            self._known.update((each.pid, each.started) for each in more)
        found_alive = [each for pid, each in table.items() if pid in self._known and not each.is_gone]
        return sorted(found_alive, key=lambda each: (each.started, each.pid), reverse=True)

    def _belongs(self, process: Process) -> bool:
        # A group and a session have the id of the process that leads them, also when that one has ended.
        near = (process.parent, process.group, process.session)
        return any(id in self._known for id in near) or (self.mark is not None and _has_mark(process.pid, self.mark))

    def signal(self, number: int) -> None:
        """Send a signal to all of them, to those of one group at the same moment."""
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
        """Wait until none of them runs; False when some still do."""
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
    """The mark of a process, unless it is our own: we may have been started by an agent ourselves."""
    marks = (entry for entry in _environment(pid) if entry.startswith(f"{MARK}=".encode()))
    mark = next(marks, b"").decode(errors="replace").partition("=")[2]
    return mark if mark and mark != os.environ.get(MARK) else None


def _environment(pid: int) -> list[bytes]:
    """The environment a process was started with.

    While a process executes another program there is a moment in which its environment reads as empty. Taken for the
    truth, that would hide a process from the supervisor that has to end it.
    """
    folder = PROC / str(pid)
    for attempt in range(_ENVIRONMENT_ATTEMPTS):
        try:
            found = _read_environment(folder)
            if found or not os.readlink(folder / "exe"):
                return found.split(b"\0")
        except OSError:
            return []  # gone, not ours to read, or a thread of the kernel, which has no program
        time.sleep(_ENVIRONMENT_PAUSE * (attempt > 0))
    return []


def _read_environment(folder: Path) -> bytes:
    return (folder / "environ").read_bytes()


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
    """End a process and everything it started: politely, then with SIGTERM, then with SIGKILL. True when all are gone.

    `polite` asks the program to end by itself, by closing its input for example. `started` is what `start_time` said
    when it was started, so that a stranger who has got its id since is left alone; `mark` is the value of the variable
    `MARK` in its environment, which is looked up where it still runs, and by which its children are found where nobody
    knows the process any more. Whoever started the process still has to wait for it, or a zombie remains.
    """
    polite_seconds = POLITE_SECONDS if polite_seconds is None else polite_seconds
    term_seconds = TERM_SECONDS if term_seconds is None else term_seconds
    kill_seconds = KILL_SECONDS if kill_seconds is None else kill_seconds
    family = Family(pid, started, mark)
    family.living()  # Known now, they are found later even if what started them has ended.
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
        # Whoever waits for this may be cancelled; nothing is left behind even so.
        if family.living():
            family.signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    until = time.monotonic() + kill_seconds
    while not await family.wait(LONGEST_LOOK_SECONDS):
        family.signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        if time.monotonic() >= until:
            return False
    return True
