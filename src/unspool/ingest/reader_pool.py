"""Reads many sessions in parallel: other processes read, this one writes.

Threads would not help, as reading is Python code. A worker leaves what it has read in a file, part by part, so that it
neither has to wait until that is written nor needs memory for it. Only new sessions are read this way: the others need
the store while they are read.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import tempfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from ..agents import AGENTS, SessionRef, SessionSource, finish
from ..core import model as m
from ..core.builder import SessionBuilder
from ..io.faults import collect_faults, note_fault
from ..io.files import forget_unchanged
from .archive import PackedLog, pack_log
from .helper_process import end_with, uninterrupted
from .read_parts import (
    ChunkPart,
    MessagesPart,
    PartFileError,
    PartWriter,
    Reading,
    ReadRef,
    ReadSession,
    readings,
)
from .reading_order import folder_of
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
_REMEMBERED = 100
"""After how many sessions a worker forgets what it has found out about the files around them."""
_OBJECTS = 10_000
"""New objects after which the garbage collector of a worker runs."""


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


@contextmanager
def reading(homes: list[tuple[str, Path]], tasks: Iterator[Task]) -> Iterator[Iterator[Reading]]:
    """Read sessions in other processes, which start at once; the results come in the order of the tasks.

    `homes` are agents and their folders. Sessions of a folder should follow each other.
    """
    with (
        _few_collections(),
        _nameless_files(_AHEAD) as files,
        closing(_Begun(homes, _groups(tasks), files)) as begun,
        _none_left(),
    ):
        begun.fill()
        yield begun.in_order()


class _Group(NamedTuple):
    """Small sessions that a worker reads together."""

    tasks: list[Task]
    size: int


class _Waiting(NamedTuple):
    """A group that is being read, or waits to be written."""

    size: int
    file: int
    future: Future[list[tuple[int, int]]]


class _Begun:
    """The groups that are being read, or wait to be written. There are few: they need space on the disk.

    Workers get a copy of what they have to do. They could use the lists of this process, but Python writes to every
    object that is used, so that each worker would get a copy of all that is known about all sessions.
    """

    def __init__(self, homes: list[tuple[str, Path]], groups: Iterator[_Group], files: list[int]) -> None:
        self._groups = groups
        self._free = deque(files)
        self._size = 0
        self._waiting: deque[_Waiting] = deque()
        context = multiprocessing.get_context("fork")
        self._pool = ProcessPoolExecutor(
            os.cpu_count() or 1, mp_context=context, initializer=_start, initargs=(os.getpid(), homes)
        )

    def fill(self) -> None:
        """Begin with as many groups as may wait."""
        with uninterrupted():
            while self._free and self._size < _AHEAD_BYTES:
                group = next(self._groups, None)
                if group is None:
                    return
                file = self._free.popleft()
                future = self._pool.submit(_read_group, group.tasks, file)
                self._waiting.append(_Waiting(group.size, file, future))
                self._size += group.size

    def in_order(self) -> Iterator[Reading]:
        """Iterate over the results; the file of a group is reused after it."""
        while self._waiting:
            size, file, future = self._waiting.popleft()
            try:
                positions = future.result()
            except (BrokenProcessPool, PartFileError):
                # A worker was killed, for lack of memory perhaps, or the disk is full. The caller reads the rest.
                return
            yield from readings(file, positions)
            self._free.append(file)
            self._size -= size
            self.fill()

    def close(self) -> None:
        """Wait for the workers."""
        self._pool.shutdown()


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
def _none_left() -> Iterator[None]:
    """Kill the workers if something goes wrong, rather than waiting for them."""
    others = set(multiprocessing.active_children())
    try:
        yield
    except BaseException:
        for worker in set(multiprocessing.active_children()) - others:
            worker.kill()
        raise


def _groups(tasks: Iterator[Task]) -> Iterator[_Group]:
    """Group small sessions."""
    group: list[Task] = []
    size = 0
    for task in tasks:
        group.append(task)
        size += task.size
        if size > _AT_ONCE:
            yield _Group(group, size)
            group, size = [], 0
    if group:
        yield _Group(group, size)


# --- in a worker ---


class _Sources:
    """The agents' folders. They are reopened now and then: what they remember of other files adds up."""

    def __init__(self, homes: list[tuple[str, Path]]) -> None:
        self._homes = homes
        self._open: dict[int, SessionSource] = {}
        self._folder: tuple[str, ...] = ()
        self._sessions = 0

    def of(self, task: Task) -> SessionSource:
        """The source to read a session from. That of the sessions of one folder stays."""
        folder = folder_of(task.ref)
        if folder != self._folder and self._sessions >= _REMEMBERED:
            self._open.clear()
            forget_unchanged()
            self._sessions = 0
        self._folder = folder
        self._sessions += 1
        if task.home not in self._open:
            agent, root = self._homes[task.home]
            self._open[task.home] = AGENTS[agent].open(root)
        return self._open[task.home]

    def agent_of(self, task: Task) -> str:
        """The agent of a session."""
        return self._homes[task.home][0]


_sources = _Sources([])


def _start(parent: int, homes: list[tuple[str, Path]]) -> None:
    """Get ready to read."""
    global _sources
    end_with(parent)
    _sources = _Sources(homes)
    gc.set_threshold(_OBJECTS)
    gc.enable()


def _read_group(tasks: list[Task], number: int) -> list[tuple[int, int]]:
    """Read some sessions into a file; returns where each of them begins, and where the rest of it is."""
    with open(number, "wb", closefd=False) as file:
        return [_read(_sources.of(task), _sources.agent_of(task), task, PartWriter(file)) for task in tasks]


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
