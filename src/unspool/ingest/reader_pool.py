"""Reads many sessions in parallel: other processes read, this one writes.

Threads would not help, because reading is Python code. A worker writes its results to a file, part by part, so that it
neither waits for the store nor needs memory for them. Only new sessions are read this way: others need the store while
they are read.

Workers are forks of this process. Python updates the reference count of every object that it uses, so the memory of
this process at the time of the fork is soon copied for each worker. Workers therefore start before the lists of files
and sessions are complete.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import struct
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from multiprocessing.connection import wait
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from ..agents import AGENTS, SessionRef, SessionSource, finish
from ..core import model as m
from ..core.builder import SessionBuilder
from ..io.faults import collect_faults, report_fault
from ..io.files import forget_unchanged
from .archive import PackedLog, pack_log
from .helper_process import end_with, uninterrupted
from .read_parts import (
    ChunkPart,
    MessagesPart,
    PartFileError,
    PartWriter,
    ReadResult,
    ReadSession,
    SpooledResult,
    empty_file,
    spooled_results,
    write_positions,
)
from .reading_order import folder_of
from .scan import ChangedLog, LogStat, session_fingerprint
from .writer import Messages, SessionWriter

if TYPE_CHECKING:
    # Windows has none.
    from multiprocessing.context import ForkProcess

WORTH_IT = 32 << 20
"""Number of bytes from which starting processes pays off."""
TOO_LARGE = 64 << 20
"""A session of this many bytes is read by the process that writes, because it would need much disk space."""
_AT_ONCE = 1 << 20
"""Size of a group of sessions that a worker reads together: small enough to stay in the cache."""
_AHEAD = 48
"""Maximum number of groups that are being read or wait to be written. The numbers of their files fit in one byte."""
_AHEAD_BYTES = 256 << 20
"""No further group is started while the others have at least this many bytes."""
_REMEMBERED = 100
"""Number of sessions after which a worker discards what it has cached about the files around them."""
_OBJECTS = 10_000
"""New objects after which the garbage collector of a worker runs."""
_DONE = struct.Struct("=Bq")
"""A worker's report about a group: the number of its file, and the offset of the positions in it, or `_FAILED`.

It is short enough that the system writes and reads it atomically, although several processes use the same pipe.
"""
_FAILED = -1


class Task(NamedTuple):
    """A session to be read."""

    home: int
    position: int
    ref: SessionRef
    changes: list[ChangedLog]

    @property
    def size(self) -> int:
        """Number of bytes to read."""
        return sum(change.stat.size for change in self.changes)


class ReaderPool:
    """Processes that read new sessions, if there is enough to read."""

    def __init__(self, worth_it: int | None = WORTH_IT) -> None:
        """`worth_it` is the number of bytes from which processes are started; None to start none."""
        self._worth_it = worth_it
        self._expected = 0
        self._workers: _Workers | None = None
        self._collects = gc.isenabled()

    def __enter__(self) -> ReaderPool:
        return self

    def expect(self, log: LogStat) -> None:
        """Count a new log. The processes start once there is enough to read."""
        self._expected += log.size
        if self._workers is None and self._worth_it is not None and self._expected >= self._worth_it:
            # The garbage collector would write to all objects that the processes share.
            gc.freeze()
            try:
                self._workers = _Workers()
            except OSError:
                # There are too many processes or open files, or the disk is full. The caller reads everything.
                self._worth_it = None
                gc.unfreeze()

    @property
    def has_started(self) -> bool:
        """Whether there is so much to read that other processes help."""
        return self._workers is not None

    def read(self, homes: list[tuple[str, Path]], tasks: Iterator[Task]) -> Iterator[SpooledResult]:
        """Start to read sessions; returns an iterator over the results, in the order of the tasks.

        `homes` are agents and their folders. Sessions of the same folder should be next to each other. Sessions that
        the processes could not read, for whatever reason, are missing from the results.
        """
        if self._workers is None:
            return iter(())
        # Very many objects are created, with hardly any reference cycles.
        gc.disable()
        begun = _Begun(self._workers, homes, _groups(tasks))
        begun.fill()
        return begun.in_order()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._workers is not None:
            self._workers.close(kill=error is not None)
            gc.unfreeze()
            if self._collects:
                gc.enable()


class _Workers:
    """The processes, the files that they write to, and two pipes.

    The processes share the descriptors of the files. The files have no names, so nothing is left of them if a process
    is killed. Through one pipe, a free process gets the number of a file that lists what to read; through the other, it
    reports the files that it has written to.
    """

    def __init__(self) -> None:
        """Start the processes. Raises OSError."""
        self._processes: list[ForkProcess] = []
        self._is_broken = True
        with ExitStack() as stack, ExitStack() as theirs:
            made = (tempfile.TemporaryFile() for _ in range(_AHEAD))  # noqa: SIM115 - the stack closes them
            self.files = [stack.enter_context(file).fileno() for file in made]
            self._done, done = os.pipe()
            stack.callback(os.close, self._done)
            theirs.callback(os.close, done)
            stack.callback(self._join)
            tasks, self._tasks = os.pipe()
            # The processes end when it is closed.
            stack.callback(os.close, self._tasks)
            theirs.callback(os.close, tasks)
            context = multiprocessing.get_context("fork")
            args = (os.getpid(), self.files, (tasks, done), (self._tasks, self._done))
            with uninterrupted():
                for _ in range(os.cpu_count() or 1):
                    process = context.Process(target=_work, args=args, daemon=True)
                    process.start()
                    self._processes.append(process)
            self._is_broken = False
            self._stack = stack.pop_all()

    def begin(self, number: int, homes: list[tuple[str, Path]], group: _Group) -> None:
        """Have the next free process read a group and write the results to a file. Raises OSError."""
        empty_file(self.files[number])
        with open(self.files[number], "wb", closefd=False) as file:
            pickle.dump((homes, group.tasks), file, pickle.HIGHEST_PROTOCOL)
        # All processes may have been killed.
        with suppress(BrokenPipeError):
            os.write(self._tasks, bytes([number]))

    def next_done(self) -> tuple[int, int] | None:
        """Wait for a group; returns the number of its file and the offset of its positions; None if a process died."""
        sentinels = [process.sentinel for process in self._processes]
        if self._done not in wait([self._done, *sentinels]):
            self._is_broken = True
            return None
        number, position = _DONE.unpack(os.read(self._done, _DONE.size))
        return number, position

    def close(self, kill: bool) -> None:
        """Stop the processes; with `kill`, without waiting for what they are still reading."""
        self._is_broken |= kill
        self._stack.close()

    def _join(self) -> None:
        for process in self._processes:
            if self._is_broken:
                process.kill()
        for process in self._processes:
            process.join()
            process.close()


class _Group(NamedTuple):
    """Small sessions that a worker reads together."""

    tasks: list[Task]
    size: int


class _Waiting(NamedTuple):
    """A group that is being read, or waits to be written."""

    size: int
    number: int
    """The number of its file."""


class _Begun:
    """The groups that are being read, or wait to be written. Their number is limited, because they need disk space."""

    def __init__(self, workers: _Workers, homes: list[tuple[str, Path]], groups: Iterator[_Group]) -> None:
        self._workers = workers
        self._homes = homes
        self._groups = groups
        self._free = deque(range(len(workers.files)))
        self._size = 0
        self._waiting: deque[_Waiting] = deque()
        self._done: dict[int, int] = {}
        """The offsets of the positions of groups that have been read, by the number of the file."""

    def fill(self) -> None:
        """Start to read as many groups as the limits allow."""
        while self._free and self._size < _AHEAD_BYTES:
            group = next(self._groups, None)
            if group is None:
                return
            number = self._free.popleft()
            try:
                self._workers.begin(number, self._homes, group)
            except OSError:
                # The disk is full. The caller reads the rest.
                return
            self._waiting.append(_Waiting(group.size, number))
            self._size += group.size

    def in_order(self) -> Iterator[SpooledResult]:
        """Iterate over the results, in the order of the tasks; the file of a group is reused afterwards."""
        while self._waiting:
            size, number = self._waiting.popleft()
            while number not in self._done:
                done = self._workers.next_done()
                if done is None:
                    # A worker was killed, perhaps for lack of memory. The caller reads the rest.
                    return
                self._done.update([done])
            position = self._done.pop(number)
            if position != _FAILED:
                yield from spooled_results(self._workers.files[number], position)
            self._free.append(number)
            self._size -= size
            self.fill()


def _groups(tasks: Iterator[Task]) -> Iterator[_Group]:
    """Combine small sessions into groups."""
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
    """The agents' folders. They are reopened now and then, because what they cache about other files adds up."""

    def __init__(self, homes: list[tuple[str, Path]]) -> None:
        self.homes = homes
        self._open: dict[int, SessionSource] = {}
        self._folder: tuple[str, ...] = ()
        self._sessions = 0

    def of(self, task: Task) -> SessionSource:
        """Return the source to read a session from. It stays open between sessions of the same folder."""
        folder = folder_of(task.ref)
        if folder != self._folder and self._sessions >= _REMEMBERED:
            self._open.clear()
            forget_unchanged()
            self._sessions = 0
        self._folder = folder
        self._sessions += 1
        if task.home not in self._open:
            agent, root = self.homes[task.home]
            self._open[task.home] = AGENTS[agent].open(root)
        return self._open[task.home]

    def agent_of(self, task: Task) -> str:
        """Return the agent of a session."""
        return self.homes[task.home][0]


_sources = _Sources([])


def _work(parent: int, files: list[int], own: tuple[int, int], others: tuple[int, int]) -> None:
    """Read the groups that the parent process requests, until it closes the pipe.

    `own` and `others` are the ends of the pipes that this process and the parent use.
    """
    _start(parent)
    for pipe in others:
        os.close(pipe)
    tasks, done = own
    while received := os.read(tasks, 1):
        (number,) = received
        os.write(done, _DONE.pack(number, _read_group(files[number])))


def _start(parent: int) -> None:
    """Set up a worker process."""
    end_with(parent)
    gc.set_threshold(_OBJECTS)
    gc.enable()


def _read_group(number: int) -> int:
    """Read the sessions listed in a file, and write the results to that file; returns the offset of their positions."""
    global _sources
    try:
        os.lseek(number, 0, os.SEEK_SET)
        with open(number, "rb", closefd=False) as file:
            homes, tasks = pickle.load(file)
        if homes != _sources.homes:
            _sources = _Sources(homes)
        empty_file(number)
        with open(number, "wb", closefd=False) as file:
            positions = [_read(_sources.of(task), _sources.agent_of(task), task, PartWriter(file)) for task in tasks]
            return write_positions(file, positions)
    except Exception:
        # The disk is full, or the parent will run into the same error when it reads the sessions, and report it.
        return _FAILED


def _read(home: SessionSource, agent: str, task: Task, parts: PartWriter) -> tuple[int, int]:
    fingerprint, failure = "", ""
    logs: dict[Path, PackedLog] = {}
    sessions: list[ReadSession] = []
    with collect_faults() as faults:
        try:
            fingerprint = session_fingerprint(home, task.ref)
            logs = {change.stat.path: _pack(change.stat, parts) for change in task.changes}
            sessions = list(_sessions(home, agent, task.ref, parts))
        except PartFileError:
            raise
        except OSError as error:
            report_fault(error, task.ref.path)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
    is_gone = not faults.gone.keys().isdisjoint({task.ref.path, *task.ref.more})
    return parts.finish(
        ReadResult(
            task.home,
            task.position,
            fingerprint,
            sessions,
            logs,
            faults.errors,
            parts.count,
            parts.weight,
            is_gone,
            failure,
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
