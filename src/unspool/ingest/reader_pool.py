"""Reads many sessions in parallel: other processes read, this one writes.

Threads would not help, as reading is Python code. A worker leaves what it has read in a file, part by part, so that it
neither has to wait until that is written nor needs memory for it. Only new sessions are read this way: the others need
the store while they are read.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..agents import AGENTS, SessionRef, SessionSource, finish
from ..core import model as m
from ..core.builder import SessionBuilder
from ..io.faults import collect_faults, note_fault
from .archive import PackedLog, pack_log
from .read_parts import (
    ChunkPart,
    MessagesPart,
    PartFileError,
    PartWriter,
    Reading,
    ReadRef,
    ReadSession,
    readings,
)  # fmt: skip
from .scan import ChangedLog, LogStat, surroundings
from .writer import Messages, SessionWriter

WORTH_IT = 32 << 20
"""Bytes from which starting processes pays off."""
TOO_LARGE = 64 << 20
"""A session of this many bytes is read by the process that writes, because it would need much space on the disk."""
_AT_ONCE = 1 << 20
"""Bytes that a worker reads before it passes them on: few enough to stay in the cache."""
_AHEAD = 48
"""How many such groups may wait during a commit."""
_AHEAD_BYTES = 256 << 20
"""How many bytes have to be in them before no further group is begun."""
_SESSIONS_EACH = 250
"""About how many sessions a worker reads before it is replaced."""
_OBJECTS = 50_000
"""New objects after which the garbage collector of a worker runs."""
_PR_SET_PDEATHSIG = 1


class Task(NamedTuple):
    """A session to be read."""

    home: int
    position: int
    ref: SessionRef
    changes: list[ChangedLog]

    @property
    def size(self) -> int:
        """How many bytes have to be read."""
        return sum(change.stat.size for change in self.changes)


def can_share() -> bool:
    """Whether other processes may help: forking is not safe if other threads hold locks."""
    threads = [thread for thread in threading.enumerate() if not getattr(thread, "is_fork_safe", False)]
    return sys.platform == "linux" and (os.cpu_count() or 1) > 1 and len(threads) == 1


@contextmanager
def reading(homes: list[tuple[SessionSource, str]], tasks: list[Task]) -> Iterator[Iterator[Reading]]:
    """Read sessions in other processes, which start at once; the results come in the order of the tasks."""
    global _homes, _tasks
    if not tasks:
        yield iter(())
        return
    _homes, _tasks = homes, tasks
    with (
        _few_collections(),
        _nameless_files(_AHEAD) as files,
        closing(_Begun(_groups(tasks), files)) as begun,
        _none_left(),
    ):
        begun.fill()
        yield begun.in_order()


class _Group(NamedTuple):
    """Small sessions that a worker reads together."""

    positions: range
    size: int


class _Waiting(NamedTuple):
    """A group that is being read, or waits to be written."""

    group: _Group
    file: int
    future: Future[list[tuple[int, int]]]


class _Begun:
    """The groups that are being read, or wait to be written. There are few: they need space on the disk.

    Workers are replaced now and then. They share the memory of this process, but Python writes to every object that is
    used, so that each worker would get a copy of all that is known about all sessions.
    """

    def __init__(self, groups: Iterator[_Group], files: list[int]) -> None:
        self._groups = groups
        self._free = deque(files)
        self._size = 0
        self._waiting: deque[_Waiting] = deque()
        self._pool = _new_pool()
        self._given: list[Future[list[tuple[int, int]]]] = []
        """What the current workers have got to do."""
        self._sessions = 0

    def fill(self) -> None:
        """Begin with as many groups as may wait."""
        with _uninterrupted():
            while self._free and self._size < _AHEAD_BYTES and self._has_workers():
                group = next(self._groups, None)
                if group is None:
                    return
                file = self._free.popleft()
                future = self._pool.submit(_read_group, group.positions, file)
                self._waiting.append(_Waiting(group, file, future))
                self._given.append(future)
                self._size += group.size
                self._sessions += len(group.positions)

    def _has_workers(self) -> bool:
        """Whether there are workers for a further group. Old ones are replaced when they have nothing left to do."""
        if self._sessions < _SESSIONS_EACH * _processors():
            return True
        if not all(future.done() for future in self._given):
            return False
        # No thread of the old pool is left when the new one forks.
        self._pool.shutdown()
        self._pool, self._given, self._sessions = _new_pool(), [], 0
        return True

    def in_order(self) -> Iterator[Reading]:
        """Iterate over the results; the file of a group is reused after it."""
        while self._waiting:
            group, file, future = self._waiting.popleft()
            try:
                positions = future.result()
            except (BrokenProcessPool, PartFileError):
                # A worker was killed, for lack of memory perhaps, or the disk is full. The caller reads the rest.
                return
            yield from readings(file, positions)
            self._free.append(file)
            self._size -= group.size
            self.fill()

    def close(self) -> None:
        """Wait for the workers."""
        self._pool.shutdown()


def _new_pool() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(_processors(), mp_context=context, initializer=_end_with, initargs=(os.getpid(),))


def _processors() -> int:
    return os.cpu_count() or 1


@contextmanager
def _nameless_files(count: int) -> Iterator[list[int]]:
    """Open files without a name, which workers know by their descriptors: nothing is left if a process is killed."""
    with ExitStack() as stack:
        yield [stack.enter_context(tempfile.TemporaryFile()).fileno() for _ in range(count)]


@contextmanager
def _few_collections() -> Iterator[None]:
    """Turn the garbage collector off: there are very many objects, and hardly any cycles.

    Workers run it now and then, without the objects that existed before they started.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay Ctrl+C while workers start: it reaches them too, and each would print a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _none_left() -> Iterator[None]:
    """Kill the workers if something goes wrong, rather than waiting for them."""
    others = set(multiprocessing.active_children())
    try:
        yield
    except BaseException:
        for worker in set(multiprocessing.active_children()) - others:
            worker.kill()
        raise


def _groups(tasks: list[Task]) -> Iterator[_Group]:
    """Group small sessions."""
    first = size = 0
    for position, task in enumerate(tasks):
        size += task.size
        if size > _AT_ONCE:
            yield _Group(range(first, position + 1), size)
            first, size = position + 1, 0
    if first < len(tasks):
        yield _Group(range(first, len(tasks)), size)


# --- in a worker ---


def _end_with(parent: int) -> None:
    """Have the system end this process with its parent, however that ends; signals are left to the parent."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    gc.set_threshold(_OBJECTS)
    gc.enable()


_homes: list[tuple[SessionSource, str]] = []
"""The sources, with everything that was looked up before the fork."""
_tasks: list[Task] = []


def _read_group(positions: range, number: int) -> list[tuple[int, int]]:
    """Read some sessions into a file; returns where each of them begins, and where the rest of it is."""
    with open(number, "wb", closefd=False) as file:
        return [_read(*_homes[task.home], task, PartWriter(file)) for task in map(_tasks.__getitem__, positions)]


def _read(home: SessionSource, agent: str, task: Task, parts: PartWriter) -> tuple[int, int]:
    around, failure = "", ""
    logs: dict[Path, PackedLog] = {}
    sessions: list[ReadSession] = []
    with collect_faults() as faults:
        try:
            around = surroundings(home, task.ref)
            logs = {change.stat.path: _pack(change.stat, parts) for change in task.changes}
            sessions = list(_sessions(home, agent, task.ref, parts))
        except PartFileError:
            raise
        except OSError as error:
            note_fault(error, task.ref.path)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
    is_gone = not faults.gone.keys().isdisjoint({task.ref.path, *task.ref.more})
    return parts.finish(
        ReadRef(
            task.home, task.position, around, sessions, logs, faults.errors, parts.count, parts.weight, is_gone, failure
        )
    )


def _pack(stat: LogStat, parts: PartWriter) -> PackedLog:
    def give(start: int, length: int, data: bytes) -> None:
        parts.add(ChunkPart(stat.path, start, length, data), len(data))

    return pack_log(stat, give)


def _sessions(home: SessionSource, agent: str, ref: SessionRef, parts: PartWriter) -> Iterator[ReadSession]:
    writers: dict[str, SessionWriter] = {}

    def make(id: str, kind: m.Kind) -> SessionBuilder:
        def give(piece: Messages) -> None:
            parts.add(MessagesPart(id, piece), piece.weight)

        writer = writers[id] = SessionWriter(AGENTS[agent].touched, give)
        return writer.builder(agent, id, kind)

    for builder in finish(home.read(ref, make)):
        yield ReadSession(builder.id, writers[builder.id].finish())
