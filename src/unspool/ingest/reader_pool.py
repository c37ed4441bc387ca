"""Reads many sessions in parallel: other processes read, this one writes.

Threads would not help, as reading is Python code. A worker leaves what it has read in a file, so that it does not have
to wait until that is written. Only new sessions are read this way: the others need the store while they are read.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ..agents import AGENTS, SessionRef, SessionSource, finish
from ..core import model as m
from ..core.builder import SessionBuilder
from ..io.faults import collect_faults, note_fault
from .archive import Packed, packed
from .scan import ChangedLog, surroundings
from .writer import Ending, Messages, SessionWriter

WORTH_IT = 32 << 20
"""Bytes from which starting processes pays off."""
TOO_LARGE = 64 << 20
"""A session of this many bytes is not held in memory as a whole."""
_AT_ONCE = 1 << 20
"""Bytes that a worker reads before it passes them on: few enough to stay in the cache."""
_AHEAD = 48
"""How many such groups may wait during a commit."""
_OBJECTS = 200_000
"""New objects after which the garbage collector of a worker runs."""
_PR_SET_PDEATHSIG = 1


class ReadSession(NamedTuple):
    """A session with everything to be written."""

    name: str
    pieces: list[Messages]
    ending: Ending


class ReadRef(NamedTuple):
    """What was read, or why it could not be read."""

    home: int
    position: int
    """Its position in the work of the home."""
    around: str
    """The fingerprint of its surroundings, before it was read."""
    sessions: list[ReadSession]
    files: dict[Path, Packed]
    faults: dict[Path, OSError]
    """What could not be read."""
    is_gone: bool = False
    """Whether one of its files was deleted in the meantime."""
    failure: str = ""
    """Why it could not be read although its files can be."""


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
def reading(homes: list[tuple[SessionSource, str]], tasks: list[Task]) -> Iterator[Iterator[ReadRef]]:
    """Read sessions in other processes, which start at once; the results come in the order of the tasks."""
    global _homes
    if not tasks:
        yield iter(())
        return
    _homes = homes
    context = multiprocessing.get_context("fork")
    with (
        _few_collections(),
        _nameless_files(_AHEAD) as files,
        ProcessPoolExecutor(os.cpu_count(), mp_context=context, initializer=_end_with, initargs=(os.getpid(),)) as pool,
        _none_left(),
    ):
        groups = enumerate(_groups(tasks))
        begun = (pool.submit(_read_group, group, files[number % _AHEAD]) for number, group in groups)
        with _uninterrupted():
            waiting = deque(islice(begun, _AHEAD))
        yield _in_order(waiting, begun)


def _in_order(waiting: deque[Future[int]], begun: Iterator[Future[int]]) -> Iterator[ReadRef]:
    """Iterate over the results; the file of a group is reused after it."""
    while waiting:
        try:
            found = _results(waiting.popleft())
        except BrokenProcessPool:
            # A worker was killed, for lack of memory perhaps. The caller reads the rest, one by one.
            return
        yield from found
        waiting.extend(islice(begun, 1))


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


def _groups(tasks: list[Task]) -> Iterator[list[Task]]:
    """Group small sessions."""
    group: list[Task] = []
    size = 0
    for task in tasks:
        group.append(task)
        size += task.size
        if size > _AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group


def _results(future: Future[int]) -> list[ReadRef]:
    number = future.result()
    os.lseek(number, 0, os.SEEK_SET)
    with open(number, "rb", closefd=False) as file:
        found: list[ReadRef] = pickle.load(file)
    os.lseek(number, 0, os.SEEK_SET)
    os.ftruncate(number, 0)
    return found


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


def _read_group(tasks: list[Task], number: int) -> int:
    found = [_read(*_homes[task.home], task) for task in tasks]
    with open(number, "wb", closefd=False) as file:
        pickle.dump(found, file, pickle.HIGHEST_PROTOCOL)
    return number


def _read(home: SessionSource, agent: str, task: Task) -> ReadRef:
    around, failure = "", ""
    files: dict[Path, Packed] = {}
    sessions: list[ReadSession] = []
    with collect_faults() as faults:
        try:
            around = surroundings(home, task.ref)
            files = {change.stat.path: packed(change.stat) for change in task.changes}
            sessions = list(_sessions(home, agent, task.ref))
        except OSError as error:
            note_fault(error, task.ref.path)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
    is_gone = not faults.gone.keys().isdisjoint({task.ref.path, *task.ref.more})
    return ReadRef(task.home, task.position, around, sessions, files, faults.errors, is_gone, failure)


def _sessions(home: SessionSource, agent: str, ref: SessionRef) -> Iterator[ReadSession]:
    writers: dict[str, tuple[SessionWriter, list[Messages]]] = {}

    def make(id: str, kind: m.Kind) -> SessionBuilder:
        pieces: list[Messages] = []
        writer = SessionWriter(AGENTS[agent].touched, pieces.append)
        writers[id] = writer, pieces
        return writer.builder(agent, id, kind)

    for builder in finish(home.read(ref, make)):
        writer, pieces = writers[builder.id]
        ending = writer.finish()
        yield ReadSession(builder.id, pieces, ending)
