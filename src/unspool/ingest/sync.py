"""Bringing a store up to date with what the agents have on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
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
from ..store.rows import FileRow, StoredSession
from .archive import keep, keep_new
from .change_diff import Held, created, differences, held
from .reader_pool import TOO_LARGE, WORTH_IT, ReadRef, Task, can_share, reading
from .scan import Changed, compare, look, walk
from .transactions import Pipeline
from .writer import Ending, Messages, SessionWriter

_AT_ONCE = 4 << 20
"""Bytes of a session that is read while others wait."""
_HELD = 16 << 20
"""Bytes of one session that wait until it is read to its end."""


class Progress(NamedTuple):
    """How far it is."""

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
    """Sessions that could not be read, and why."""
    seconds: float = 0.0


class Syncer:
    """Brings a store up to date: only what has changed is read, and each session is written at once or not at all."""

    def __init__(self, store: Store, *places: str | Path, may_share: bool = False) -> None:
        """`places` as for a `Library`; `may_share` lets other processes help with a lot of work."""
        self._may_share = may_share
        self._store = store
        self._places = places

    def run(
        self,
        tell: Callable[[Progress], None] | None = None,
        committed: Callable[[], None] | None = None,
        open_too: bool = False,
    ) -> Report:
        """Look at everything once.

        `committed` is called when something has been written for good. With `open_too`, sessions that an agent has open
        are looked at though no file changed: the agent may have died.
        """
        began = time.perf_counter()
        report = Report()
        with self._store.exclusive():
            self._run(report, tell, Pipeline(self._store, committed), open_too)
            self._store.changes.prune()
        report.seconds = time.perf_counter() - began
        return report

    def take_in(self, agent: str, home: SessionSource, path: Path) -> Report | None:
        """Take in the session of one file, without looking at the others; None when they have to be looked at.

        `home` has to know the folder as it is now.
        """
        ref = home.ref(path)
        if ref is None or path not in _paths(ref) or not home.lists(ref):
            return None
        store, report = self._store, Report()
        with store.exclusive():
            seen = [entry for path in _paths(ref) if (entry := look(agent, path)) is not None]
            if sum(entry.size for entry in seen) > _AT_ONCE:
                return None
            names = [name_of(path) for path in _paths(ref)]
            stored = store.sessions.from_source(agent, ref.id)
            if any({file.path for file in store.files.of_session(known.id)} != set(names) for known in stored.values()):
                return None
            changes, _ = compare(seen, {name: row for name in names if (row := store.files.at(name)) is not None})
            if stored and not changes:
                return report
            intake = _Ingest(store, agent, home, changes, report)
            pipeline = Pipeline(store)
            try:
                intake.take_in(_Outdated(ref, home.around(ref), bool(stored), bool(stored)), pipeline)
            except BaseException as error:
                pipeline.cancel(error)
                raise
            pipeline.commit()
        return report

    def _run(self, report: Report, tell: Callable[[Progress], None] | None, pipeline: Pipeline, open_too: bool) -> None:
        known = self._store.files.all()
        homes = []
        for agent, root in Library(*self._places).homes():
            inside = {path: row for path, row in known.items() if _is_inside(path, root)}
            changes, missing = compare(walk(agent, root), inside)
            report.files += len(inside)
            if (
                changes
                or missing
                or self._store.sessions.has_unsettled(agent)
                or (open_too and self._store.sessions.has_open(agent))
            ):
                homes.append(_HomeSync(self._store, agent, root, changes, missing, report))
        if not homes:
            return
        try:
            self._take_in(homes, pipeline, _ProgressReporter(homes, report, tell))
        except BaseException as error:
            pipeline.cancel(error)
            raise
        pipeline.commit()

    def _take_in(self, homes: list[_HomeSync], pipeline: Pipeline, teller: _ProgressReporter) -> None:
        shared = [
            Task(number, place, stale.ref, home.changes_of(stale.ref))
            for number, home in enumerate(homes)
            for place, stale in enumerate(home.work)
            if not stale.is_known and home.size_of(stale.ref) < TOO_LARGE
        ]
        if sum(task.size for task in shared) < WORTH_IT or not self._may_share or not can_share():
            shared = []
        done = {(task.home, task.place) for task in shared}
        with reading([(home.home, home.agent) for home in homes], shared) as reads:
            for home in homes:
                pipeline.do(home.keep_others)
            for read in reads:
                home = homes[read.home]
                teller.tell(home, home.work[read.place].ref)
                home.take_in_ready(home.work[read.place], read, pipeline)
                pipeline.end()
        for number, home in enumerate(homes):
            for place, stale in enumerate(home.work):
                if (number, place) not in done:
                    teller.tell(home, stale.ref)
                    home.take_in(stale, pipeline)
                    pipeline.end()
            pipeline.do(home.note_missing)


class _ProgressReporter:
    """Tells how far it is."""

    def __init__(self, homes: list[_HomeSync], report: Report, tell: Callable[[Progress], None] | None) -> None:
        self._report = report
        self._tell = tell
        self._sessions = sum(len(home.work) for home in homes)
        self._bytes = sum(home.size_of(stale.ref) for home in homes for stale in home.work)
        self._count = 0

    def tell(self, home: _HomeSync, ref: SessionRef) -> None:
        """The next session."""
        if self._tell is not None:
            self._tell(Progress(self._count, self._sessions, self._report.bytes, self._bytes, ref.id))
        self._count += 1
        self._report.bytes += home.size_of(ref)


class _Ingest:
    """Takes in sessions of one agent's folder of which something has changed."""

    def __init__(self, store: Store, agent: str, home: SessionSource, changes: list[Changed], report: Report) -> None:
        self._store = store
        self._report = report
        self._changed = {change.seen.path: change for change in changes}
        self.agent = agent
        self.home = home

    def changes_of(self, ref: SessionRef) -> list[Changed]:
        """What has changed of a session's files."""
        return [self._changed[path] for path in _paths(ref) if path in self._changed]

    def size_of(self, ref: SessionRef) -> int:
        """Bytes of those."""
        return sum(change.seen.size for change in self.changes_of(ref))

    def take_in_ready(self, stale: _Outdated, read: ReadRef, pipeline: Pipeline) -> None:
        """Write a new session that somebody else has read."""
        if read.failure is not None:
            self._report.failures[stale.ref.id] = read.failure
            return
        store = self._store

        def write() -> None:
            files = [keep_new(store, self._changed[path].seen, ready).id for path, ready in read.files.items()]
            for name, pieces, ending in read.sessions:
                before = held(store, self.agent, name)
                id = store.sessions.create(self.agent, name, stale.ref.id)
                for piece in pieces:
                    piece.write(store, id)
                ending.write(store, id, read.around, files)
                _note(store, self.agent, name, id, before, ending)

        pipeline.do(write, sum(piece.weight for session in read.sessions for piece in session.pieces))
        self._report.new += len(read.sessions)

    def take_in(self, stale: _Outdated, pipeline: Pipeline) -> None:
        """Read one session and have all of it written."""
        try:
            self._read(stale, pipeline)
        except OSError as error:
            self._report.failures[stale.ref.id] = str(error)

    def _read(self, stale: _Outdated, pipeline: Pipeline) -> None:
        store, ref = self._store, stale.ref
        changes = self.changes_of(ref)
        grew = stale.same_files and all(change.how in ("grown", "moved") for change in changes)
        stored = store.sessions.from_source(self.agent, ref.id) if stale.is_known else {}
        around = self.home.around(ref) if stale.around is None else stale.around
        # What is read waits, so that nothing is written of a session that cannot be read to its end.
        line = _Line(pipeline)
        files: list[int] = []
        line.add(lambda: files.extend(self._kept(_paths(ref))), self.size_of(ref) // 8)
        targets: dict[str, _Target] = {}

        def make(id: str, kind: m.Kind) -> SessionBuilder:
            targets[id] = target = _Target(store, self.agent, id, ref.id, stored.get(id), grew, line)
            return target.writer.draft(self.agent, id, kind)

        drafts = finish(self.home.read(ref, make))
        if grew and any(target.writer.is_wrong for target in targets.values()):
            self._read(stale._replace(same_files=False), pipeline)
            return
        for draft in drafts:
            targets[draft.id].finish(around, files)
            before = stored.pop(draft.id, None)
            self._report.new += before is None
            self._report.changed += before is not None
        for left in stored.values():
            line.add(lambda left=left: self._forget(left), 0)  # type: ignore[misc]
        line.go()

    def _kept(self, paths: list[Path]) -> Iterator[int]:
        """Bring the bytes of a session's files into the archive; the numbers of the files."""
        for path in paths:
            row = (
                keep(self._store, self._changed[path]) if path in self._changed else self._store.files.at(name_of(path))
            )
            if row is not None:
                yield row.id

    def _forget(self, left: StoredSession) -> None:
        """Remove a session that its file does not hold any more."""
        self._store.sessions.delete(left.id)
        self._store.changes.append("session.forgotten", left.id, agent=self.agent, name=left.name)


class _HomeSync(_Ingest):
    """One agent's folder in which something has changed."""

    def __init__(
        self, store: Store, agent: str, root: Path, changes: list[Changed], missing: list[FileRow], report: Report
    ) -> None:
        super().__init__(store, agent, AGENTS[agent].open(root), changes, report)
        self._missing = missing
        refs = _each_once(self.home.refs())
        self._ids = {ref.id for ref in refs}
        own = {path for ref in refs for path in _paths(ref)}
        self._others = [change for path, change in self._changed.items() if path not in own]
        self.work = self._stale(refs)
        self._sort()

    def _stale(self, refs: list[SessionRef]) -> list[_Outdated]:
        """Sessions to be read: those whose files changed or are others, and those around which something did."""
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
            paths, around = _paths(ref), self.home.around(ref)
            same_files = files.get(ref.id) == {_path_before(path, changed) for path in paths}
            if not same_files or before[ref.id] != around or any(path in changed for path in paths):
                found.append(_Outdated(ref, around, is_known=True, same_files=same_files))
        return found

    def _sort(self) -> None:
        """The oldest first, so that what is newer has the higher numbers; sub-agents after the session they are of,
        because what that told is remembered then."""
        newest: dict[str, int] = {}
        for stale in self.work:
            family = _family(stale.ref)
            newest[family] = max(newest.get(family, 0), _newest(stale.ref, self._changed))
        self.work.sort(key=lambda stale: (newest[_family(stale.ref)], _family(stale.ref), stale.ref.parent is not None))

    def keep_others(self) -> None:
        """Files that are no session: they are kept as well, because sessions are read with them."""
        for change in self._others:
            try:
                keep(self._store, change)
            except UnspoolError as error:
                self._report.failures[str(change.seen.path)] = str(error)

    def note_missing(self) -> None:
        """Mark files that are gone, and sessions that the folder does not have any more."""
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
    """None while it was not asked for: of a new session that can wait until it is read."""
    is_known: bool
    same_files: bool
    """It was read from these files before, wherever they lay then."""


class _Target:
    """A session on its way into the store: a new one, one that goes on, or one that is written anew."""

    def __init__(
        self, store: Store, agent: str, name: str, ref: str, before: StoredSession | None, grew: bool, line: _Line
    ) -> None:
        self._store = store
        self._agent = agent
        self._name = name
        self._line = line
        self._id = before.id if before is not None else 0
        self._held: Held | None = held(store, agent, name) if before is not None else None
        self.writer = SessionWriter(AGENTS[agent].touched, self._give)
        if before is None:
            line.add(lambda: self._make_room(ref), 0)
        elif grew:
            self.writer.go_on_from(store, before)
            line.add(lambda: store.sessions.remove_tail(before.id, before.sealed), 0)
        else:
            self.writer.compare_with(store, before.id)
            line.add(lambda: store.sessions.clear(before.id), 0)

    def _make_room(self, ref: str) -> None:
        # It may be there already, read from elsewhere.
        self._held = held(self._store, self._agent, self._name)
        self._id = self._store.sessions.create(self._agent, self._name, ref)

    def _give(self, piece: Messages) -> None:
        self._line.add(lambda: piece.write(self._store, self._id), piece.weight)

    def finish(self, around: str, files: list[int]) -> None:
        """Write the rest, and tell of it."""
        ending = self.writer.finish()

        def write() -> None:
            ending.write(self._store, self._id, around, files)
            _note(self._store, self._agent, self._name, self._id, self._held, ending)

        self._line.add(write, ending.weight)


class _Line:
    """Work of one session: held back while it is small, so that a session that fails leaves nothing behind."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._held: list[tuple[Callable[[], None], int]] | None = []
        self._weight = 0

    def add(self, work: Callable[[], None], weight: int) -> None:
        """Take work in order."""
        if self._held is None:
            self._pipeline.do(work, weight)
            return
        self._held.append((work, weight))
        self._weight += weight
        if self._weight > _HELD:
            self._pipeline.begin_alone()
            self.go()

    def go(self) -> None:
        """Nothing can go wrong any more, or it is too much to wait."""
        held, self._held = self._held or [], None
        for work, weight in held:
            self._pipeline.do(work, weight)


def _note(store: Store, agent: str, name: str, id: int, before: Held | None, ending: Ending) -> None:
    """Add what is different now to the change log."""
    if before is None:
        rows = iter([created(agent, name, ending.messages)])
    else:
        rows = differences(before, ending.held, ending.compared)
    for kind, data in rows:
        store.changes.append(kind, id, **data)


def _family(ref: SessionRef) -> str:
    return ref.parent or ref.id


def _paths(ref: SessionRef) -> list[Path]:
    return [ref.path, *ref.more]


def _each_once(refs: Iterable[SessionRef]) -> list[SessionRef]:
    """Sessions by their ids. Of copies, as they are made when a project moves, the one that was written last counts."""
    found: dict[str, SessionRef] = {}
    for ref in refs:
        if ref.id not in found or _changed_at(ref.path) > _changed_at(found[ref.id].path):
            found[ref.id] = ref
    return list(found.values())


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _path_before(path: Path, changed: dict[Path, Changed]) -> str:
    change = changed.get(path)
    return change.before.path if change is not None and change.before is not None else name_of(path)


def _newest(ref: SessionRef, changed: dict[Path, Changed]) -> int:
    return max((changed[path].seen.changed for path in _paths(ref) if path in changed), default=0)


def _is_inside(path: str, root: Path) -> bool:
    folder = name_of(root)
    return path.startswith(folder) and path[len(folder) : len(folder) + 1] in ("/", "\\")
