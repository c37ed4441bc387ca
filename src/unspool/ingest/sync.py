"""Brings a store up to date with the agents' files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..agents import AGENTS, SessionRef, SessionSource, finish
from ..core import model as m
from ..core.builder import SessionBuilder
from ..core.errors import UnspoolError
from ..io.files import name_of
from ..library import Library
from ..store import Store
from ..store.decision_log import decision_marks
from ..store.filters import SessionFilter
from ..store.rows import READ_AGAIN, FileRow
from .archive import keep, keep_new
from .reader_pool import TOO_LARGE, WORTH_IT, ReadRef, Task, can_share, reading
from .scan import ChangedLog, compare, stat_log, surroundings
from .session import SessionIngest, WriteQueue, forget_session
from .transactions import Pipeline
from .writer import SessionWriter

_AT_ONCE = 4 << 20
"""Largest session, in bytes, that is read at once while others wait."""


class Progress(NamedTuple):
    """How far a run is."""

    done: int
    total: int
    bytes_done: int
    bytes_total: int
    name: str


class Report(msgspec.Struct):
    """What a run did."""

    files: int = 0
    new: int = 0
    changed: int = 0
    gone: int = 0
    bytes: int = 0
    failures: dict[str, str] = {}
    """Why sessions could not be read, by session."""
    seconds: float = 0.0


class Syncer:
    """Reads what has changed since the last run. Each session is written completely or not at all."""

    def __init__(self, store: Store, *locations: str | Path, may_share: bool = False) -> None:
        """`locations` as for a `Library`; with `may_share`, other processes help if there is much to read."""
        self._may_share = may_share
        self._store = store
        self._locations = locations

    def run(
        self,
        on_progress: Callable[[Progress], None] | None = None,
        committed: Callable[[], None] | None = None,
        open_too: bool = False,
        patience: float | None = None,
    ) -> Report:
        """Look at everything once.

        `committed` is called after each commit. With `open_too`, sessions that an agent has open are checked even if
        no file changed: the agent may have died. With `patience`, `BusyError` is raised if another process has not
        finished its run after as many seconds.
        """
        began = time.perf_counter()
        report = Report()
        with self._store.exclusive(patience):
            self._run(report, on_progress, Pipeline(self._store, committed), open_too)
            self._store.changes.prune()
        report.seconds = time.perf_counter() - began
        return report

    def ingest(self, agent: str, home: SessionSource, path: Path) -> Report | None:
        """Read the session of one file without looking at other files; None if those have to be looked at.

        `home` must know the current state of the folder.
        """
        ref = home.ref(path)
        if ref is None or path not in _paths(ref) or not home.contains(ref):
            return None
        store, report = self._store, Report()
        with store.exclusive():
            seen = [entry for path in _paths(ref) if (entry := stat_log(agent, path)) is not None]
            if sum(entry.size for entry in seen) > _AT_ONCE:
                return None
            names = [name_of(path) for path in _paths(ref)]
            stored = store.sessions.from_source(agent, ref.id)
            if any({file.path for file in store.files.of_session(known.id)} != set(names) for known in stored.values()):
                return None
            known = {name: row for name in names if (row := store.files.at(name)) is not None}
            changes, _ = compare(agent, (entry.source for entry in seen), known)
            if stored and not changes:
                return report
            ingest = _Ingest(store, agent, home, changes, report)
            pipeline = Pipeline(store)
            try:
                ingest.ingest(_Outdated(ref, surroundings(home, ref), bool(stored), bool(stored)), pipeline)
            except BaseException as error:
                pipeline.cancel(error)
                raise
            pipeline.commit()
        return report

    def _run(
        self, report: Report, on_progress: Callable[[Progress], None] | None, pipeline: Pipeline, open_too: bool
    ) -> None:
        known = self._store.files.all()
        homes = []
        for agent, root in Library(*self._locations).homes():
            inside = {path: row for path, row in known.items() if _is_inside(path, root)}
            report.files += len(inside)
            try:
                changes, missing = compare(agent, AGENTS[agent].logs(root), inside)
                if changes or missing or self._is_unsettled(agent, open_too):
                    homes.append(_HomeSync(self._store, agent, root, changes, missing, report))
            except OSError as error:
                # A folder that cannot be listed now may be readable again later; its sessions are not gone.
                report.failures[str(root)] = str(error)
        if not homes:
            return
        try:
            self._read_homes(homes, pipeline, _ProgressReporter(homes, report, on_progress))
        except BaseException as error:
            pipeline.cancel(error)
            raise
        pipeline.commit()

    def _is_unsettled(self, agent: str, open_too: bool) -> bool:
        """Whether sessions have to be read again although no file has changed."""
        sessions = self._store.sessions
        if sessions.has_unsettled(agent) or (open_too and sessions.has_open(agent)):
            return True
        marks = decision_marks(agent)
        known = sessions.fingerprints(agent) if marks else {}
        return any(not known[session].endswith(mark) for session, mark in marks.items() if session in known)

    def _read_homes(self, homes: list[_HomeSync], pipeline: Pipeline, progress: _ProgressReporter) -> None:
        shared = [
            Task(number, position, outdated.ref, home.changes_of(outdated.ref))
            for number, home in enumerate(homes)
            for position, outdated in enumerate(home.work)
            if not outdated.is_known and not home.has_gone and home.size_of(outdated.ref) < TOO_LARGE
        ]
        if sum(task.size for task in shared) < WORTH_IT or not self._may_share or not can_share():
            shared = []
        done = {(task.home, task.position) for task in shared}
        with reading([(home.home, home.agent) for home in homes], shared) as reads:
            for home in homes:
                pipeline.write(home.keep_others)
            for read in reads:
                home = homes[read.home]
                progress.next(home, home.work[read.position].ref)
                home.take_in_ready(home.work[read.position], read, pipeline)
                pipeline.end_session()
        for number, home in enumerate(homes):
            for position, outdated in enumerate(home.work):
                if (number, position) not in done:
                    progress.next(home, outdated.ref)
                    home.ingest(outdated, pipeline)
                    pipeline.end_session()
            pipeline.write(home.note_missing)


class _ProgressReporter:
    """Reports the progress of a run."""

    def __init__(self, homes: list[_HomeSync], report: Report, on_progress: Callable[[Progress], None] | None) -> None:
        self._report = report
        self._on_progress = on_progress
        self._sessions = sum(len(home.work) for home in homes)
        self._bytes = sum(home.size_of(outdated.ref) for home in homes for outdated in home.work)
        self._count = 0

    def next(self, home: _HomeSync, ref: SessionRef) -> None:
        """Report the next session."""
        if self._on_progress is not None:
            self._on_progress(Progress(self._count, self._sessions, self._report.bytes, self._bytes, ref.id))
        self._count += 1
        self._report.bytes += home.size_of(ref)


class _Ingest:
    """Reads outdated sessions of one agent's folder."""

    def __init__(
        self, store: Store, agent: str, home: SessionSource, changes: list[ChangedLog], report: Report
    ) -> None:
        self._store = store
        self._report = report
        self._changed = {change.stat.path: change for change in changes}
        self.agent = agent
        self.home = home

    def changes_of(self, ref: SessionRef) -> list[ChangedLog]:
        """Return the changed files of a session."""
        return [self._changed[path] for path in _paths(ref) if path in self._changed]

    def size_of(self, ref: SessionRef) -> int:
        """Return the size of those files."""
        return sum(change.stat.size for change in self.changes_of(ref))

    def take_in_ready(self, outdated: _Outdated, read: ReadRef, pipeline: Pipeline) -> None:
        """Write a new session that another process has read."""
        if read.failure is not None:
            self._report.failures[outdated.ref.id] = read.failure
            return
        store = self._store

        def write() -> None:
            files = [keep_new(store, self._changed[path].stat, ready).id for path, ready in read.files.items()]
            for name, pieces, ending in read.sessions:
                ingest = SessionIngest(store, self.agent, name, outdated.ref.id)
                ingest.begin()
                for piece in pieces:
                    ingest.write(piece)
                ingest.finish(ending, read.around, files)

        pipeline.write(write, sum(piece.weight for session in read.sessions for piece in session.pieces))
        self._report.new += len(read.sessions)

    def ingest(self, outdated: _Outdated, pipeline: Pipeline) -> None:
        """Read one session and have all of it written."""
        try:
            self._read(outdated, pipeline)
        except OSError as error:
            self._report.failures[outdated.ref.id] = str(error)

    def _read(self, outdated: _Outdated, pipeline: Pipeline) -> None:
        store, ref = self._store, outdated.ref
        changes = self.changes_of(ref)
        grew = outdated.same_files and all(change.how in ("grown", "moved") for change in changes)
        stored = store.sessions.from_source(self.agent, ref.id) if outdated.is_known else {}
        around = surroundings(self.home, ref) if outdated.around is None else outdated.around
        queue = WriteQueue(pipeline)
        files: list[int] = []
        queue.add(lambda: files.extend(self._kept(_paths(ref))), self.size_of(ref) // 8)
        found: dict[str, tuple[SessionIngest, SessionWriter]] = {}

        def make(id: str, kind: m.Kind) -> SessionBuilder:
            ingest = SessionIngest(store, self.agent, id, ref.id, stored.get(id), grew)
            writer = ingest.writer(lambda piece: queue.add(lambda: ingest.write(piece), piece.weight))
            queue.add(ingest.begin)
            found[id] = ingest, writer
            return ingest.builder(writer, kind)

        builders = finish(self.home.read(ref, make))
        if grew and any(writer.is_wrong for _, writer in found.values()):
            self._read(outdated._replace(same_files=False), pipeline)
            return
        for builder in builders:
            ingest, writer = found[builder.id]
            ending = writer.finish()
            queue.add(partial(ingest.finish, ending, around, files), ending.weight)
            before = stored.pop(builder.id, None)
            self._report.new += before is None
            self._report.changed += before is not None
        for left in stored.values():
            queue.add(partial(forget_session, store, self.agent, left))
        queue.flush()

    def _kept(self, paths: list[Path]) -> Iterator[int]:
        """Bring the archive of a session's files up to date; returns their ids."""
        for path in paths:
            row = (
                keep(self._store, self._changed[path]) if path in self._changed else self._store.files.at(name_of(path))
            )
            if row is not None:
                yield row.id


class _HomeSync(_Ingest):
    """One agent's folder with changed files."""

    def __init__(
        self, store: Store, agent: str, root: Path, changes: list[ChangedLog], missing: list[FileRow], report: Report
    ) -> None:
        super().__init__(store, agent, AGENTS[agent].open(root), changes, report)
        self._missing = missing
        refs = _each_once(agent, self.home.refs())
        self._ids = {ref.id for ref in refs}
        own = {path for ref in refs for path in _paths(ref)}
        self._others = [change for path, change in self._changed.items() if path not in own]
        self.work = self._outdated(refs)
        self._sort()

    def _outdated(self, refs: list[SessionRef]) -> list[_Outdated]:
        """Find the sessions to read: their files changed, or something else that they depend on."""
        changed = self._changed
        before = self._store.sessions.fingerprints(self.agent)
        files: dict[str, set[str | None]] = {}
        for _, id, path in self._store.sessions.present(self.agent):
            files.setdefault(id, set()).add(path)
        found = []
        for ref in refs:
            if ref.id not in before:
                found.append(_Outdated(ref, None, is_known=False, same_files=False))
                continue
            paths, around = _paths(ref), surroundings(self.home, ref)
            same_files = before[ref.id] != READ_AGAIN and files.get(ref.id) == {
                _path_before(path, changed) for path in paths
            }
            if not same_files or before[ref.id] != around or any(path in changed for path in paths):
                found.append(_Outdated(ref, around, is_known=True, same_files=same_files))
        return found

    @cached_property
    def has_gone(self) -> bool:
        """Whether reading needs the store: new sessions may be forks of sessions that only the store still has."""
        filter = SessionFilter(machine=self._store.machine, agent=self.agent, is_gone=True)
        return bool(self._missing) or self._store.sessions.count(filter) > 0

    def _sort(self) -> None:
        """Sort the oldest first, so that newer sessions get higher numbers, and sub-agents after their parent, because
        reading them needs what was found there."""
        newest: dict[str, int] = {}
        for outdated in self.work:
            family = _family(outdated.ref)
            newest[family] = max(newest.get(family, 0), _newest(outdated.ref, self._changed))
        self.work.sort(
            key=lambda outdated: (newest[_family(outdated.ref)], _family(outdated.ref), outdated.ref.parent is not None)
        )

    def keep_others(self) -> None:
        """Archive changed files that hold no session: reading sessions depends on them."""
        for change in self._others:
            try:
                keep(self._store, change)
            except UnspoolError as error:
                self._report.failures[str(change.stat.path)] = str(error)

    def note_missing(self) -> None:
        """Mark files and sessions that are gone."""
        now = time.time()
        for row in self._missing:
            self._store.files.put(row._replace(gone_at=now))
        gone = {
            session
            for session, ref, path in self._store.sessions.present(self.agent)
            if ref not in self._ids and (path is None or _is_inside(path, self.home.root))
        }
        for session in sorted(gone):
            self._store.sessions.set_gone(session, now)
            self._store.changes.append("session.gone", session)
            self._report.gone += 1


class _Outdated(NamedTuple):
    """A session that has to be read."""

    ref: SessionRef
    around: str | None
    """The fingerprint of its surroundings; None for a new session, as it is computed when that is read."""
    is_known: bool
    same_files: bool
    """Whether it was read from the same files before, wherever they were."""


def _family(ref: SessionRef) -> str:
    return ref.parent or ref.id


def _paths(ref: SessionRef) -> list[Path]:
    return [ref.path, *ref.more]


def _each_once(agent: str, refs: Iterable[SessionRef]) -> list[SessionRef]:
    """Keep one session of each id: moving a project leaves copies, and the newest one counts."""
    found: dict[str, SessionRef] = {}
    log = AGENTS[agent].log
    for ref in refs:
        if ref.id not in found or log(ref.path).modified() > log(found[ref.id].path).modified():
            found[ref.id] = ref
    return list(found.values())


def _path_before(path: Path, changed: dict[Path, ChangedLog]) -> str:
    change = changed.get(path)
    return change.before.path if change is not None and change.before is not None else name_of(path)


def _newest(ref: SessionRef, changed: dict[Path, ChangedLog]) -> int:
    return max((changed[path].stat.changed for path in _paths(ref) if path in changed), default=0)


def _is_inside(path: str, root: Path) -> bool:
    folder = name_of(root)
    return path.startswith(folder) and path[len(folder) : len(folder) + 1] in ("/", "\\")
