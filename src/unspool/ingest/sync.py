"""Brings a store up to date with the agents' files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

from ..agents import AGENTS, Peek, SessionRef, SessionSource, finish
from ..core import model as m
from ..core.builder import SessionBuilder
from ..core.errors import DamagedError
from ..io.faults import Faults, collect_faults, reason_of
from ..io.files import is_inside, name_of
from ..library import Library
from ..store import Store
from ..store.decision_log import decision_marks
from ..store.filters import SessionFilter
from ..store.forgotten import Exclusions, ForgottenSession, exclusions
from ..store.rows import READ_AGAIN, FileRow, StoredSession
from .archive import Archiving, LogChangedError, archive_log
from .helper_process import can_share
from .read_parts import Reading, write_new
from .reader_pool import TOO_LARGE, WORTH_IT, ReaderPool, Task
from .reading_order import reading_order
from .redacted_push import check_complete
from .scan import REPLACED, ChangedLog, Scan, compare, is_same_around, share_paths, stat_log, surroundings
from .session import SessionIngest, WriteQueue, remove_session
from .session_listing import list_elsewhere
from .sync_report import Progress as Progress
from .sync_report import Report as Report
from .sync_report import ReportCounts
from .sync_selection import SyncSelection
from .transactions import Pipeline, concerns_session
from .unreadable import HeldError, Unreadable
from .writer import Ending, SessionWriter

_AT_ONCE = 4 << 20
"""Largest session, in bytes, that `Syncer.ingest` reads; other changes wait meanwhile."""


class Syncer:
    """Reads everything that has changed since the last run. Each session is written completely or not at all."""

    def __init__(
        self,
        store: Store,
        *locations: str | Path,
        may_share: bool = False,
        forgotten: Iterable[ForgottenSession] = (),
        selection: SyncSelection | None = None,
        with_secrets: bool = False,
    ) -> None:
        """`locations` as for a `Library`; with `may_share`, other processes help if there is much to read.

        Sessions that were forgotten in the store, or are passed as `forgotten`, are not read. With a `selection`, only
        some of the changed sessions are. `with_secrets` replaces redacted sessions.
        """
        self._with_secrets = with_secrets
        self._selection = selection or SyncSelection()
        self._may_share = may_share
        self._forgotten = list(forgotten)
        self._store, self._locations = store, locations
        self.changed_logs: list[Path] = []
        """The files that were new or different in the last run."""

    def run(
        self,
        on_progress: Callable[[Progress], None] | None = None,
        committed: Callable[[], None] | None = None,
        open_too: bool = False,
        patience: float | None = None,
    ) -> Report:
        """Sync everything once.

        `committed` is called after each commit. With `open_too`, sessions that an agent has open are checked even if
        no file changed: the agent may have died. With `patience`, `BusyError` is raised if another process has not
        finished its run after that many seconds.
        """
        began = time.perf_counter()
        report = Report()
        counts = ReportCounts(report, committed)
        with self._store.exclusive(patience):
            check_complete(self._store, self._with_secrets)
            pipeline = Pipeline(self._store, counts.save, counts.restore)
            with ReaderPool(WORTH_IT if self._may_share and can_share() else None) as readers:
                self._run(report, on_progress, pipeline, readers, open_too)
            self._store.changes.prune()
        report.seconds = time.perf_counter() - began
        return report

    def ingest(self, agent: str, home: SessionSource, path: Path) -> Report | None:
        """Sync the session of one file without looking at other files; None if a full sync is needed instead.

        `home` must know the current state of the folder.
        """
        ref = home.ref(path)
        if ref is None or path not in _paths(ref) or not home.contains(ref):
            return None
        store, report = self._store, Report()
        with store.exclusive():
            excluded = self._exclusions(agent)
            if ref.id in excluded.names:
                return report
            try:
                seen = [entry for path in _paths(ref) if (entry := stat_log(agent, path)) is not None]
            except OSError:
                return None
            if sum(entry.size for entry in seen) > _AT_ONCE:
                return None
            names = [name_of(path) for path in _paths(ref)]
            stored = store.sessions.from_source(agent, ref.id)
            if any({file.path for file in store.files.of_session(known.id)} != set(names) for known in stored.values()):
                return None
            known = {name: row for name in names if (row := store.files.at(name)) is not None}
            scan = compare(agent, (entry.source for entry in seen), known, store.files.intact_chunks)
            if scan.unreadable:
                return None
            if stored and not scan.changes:
                return report
            ingest = _Ingest(store, agent, home, scan, report, Unreadable(home.root, known, {}), excluded.names)
            pipeline = Pipeline(store)
            try:
                ingest.run(_Outdated(ref, surroundings(home, ref), bool(stored), bool(stored)), pipeline)
            except BaseException as error:
                pipeline.cancel(error)
                raise
            pipeline.commit()
        return report

    def _exclusions(self, agent: str) -> Exclusions:
        return exclusions([*self._forgotten, *self._store.forgotten.all()], agent)

    def _run(
        self,
        report: Report,
        on_progress: Callable[[Progress], None] | None,
        pipeline: Pipeline,
        readers: ReaderPool,
        open_too: bool,
    ) -> None:
        store = self._store
        known, failed = store.files.all(), store.files.unreadable()
        self.changed_logs = []
        homes = []
        for agent, root in self._agent_folders(report):
            inside = {path: row for path, row in known.items() if is_inside(path, name_of(root))}
            report.files += len(inside)
            before = {path: why for path, why in failed.items() if _is_at(path, root)}
            unreadable = Unreadable(root, inside, before)
            names, paths = self._exclusions(agent)
            try:
                logs = (log for log in AGENTS[agent].logs(root) if not paths or name_of(log.path) not in paths)
                scan = compare(agent, logs, inside, store.files.intact_chunks, readers.expect)
                try:
                    if any(scan) or unreadable.before or self._is_unsettled(agent, open_too):
                        folder = _HomeSync(store, agent, root, scan, report, unreadable, names, self._may_share)
                        homes.append(folder)
                finally:
                    self.changed_logs += [change.stat.path for change in scan.changes if change.is_new_on_disk]
            except OSError as error:
                # A folder that cannot be listed now may be readable again later; its sessions are not gone.
                report.failures[name_of(root)] = str(error)
            except Exception as error:
                if not concerns_session(error):
                    raise
                report.failures[name_of(root)] = f"{type(error).__name__}: {error}"
        if not homes:
            return
        self._selection.apply(homes)
        try:
            self._read_homes(homes, pipeline, readers, _ProgressReporter(homes, report, on_progress))
        except BaseException as error:
            pipeline.cancel(error)
            raise
        pipeline.commit()

    def _agent_folders(self, report: Report) -> list[tuple[str, Path]]:
        """Return the agents' folders in all locations. A location that cannot be examined does not affect others."""
        try:
            return list(Library(*self._locations).homes())
        except OSError as error:
            if not self._locations:
                report.failures[str(error.filename)] = reason_of(error)
                return []
        found: dict[tuple[str, Path], None] = {}
        for location in self._locations:
            try:
                found |= dict.fromkeys(Library(location).homes())
            except OSError as error:
                report.failures[str(location)] = reason_of(error)
        return list(found)

    def _is_unsettled(self, agent: str, open_too: bool) -> bool:
        """Whether sessions have to be read again although no file has changed."""
        sessions = self._store.sessions
        if sessions.has_unsettled(agent) or (open_too and sessions.has_open(agent)):
            return True
        marks = decision_marks(agent)
        known = sessions.fingerprints(agent) if marks else {}
        return any(not known[session].endswith(mark) for session, mark in marks.items() if session in known)

    def _read_homes(
        self, homes: list[_HomeSync], pipeline: Pipeline, readers: ReaderPool, progress: _ProgressReporter
    ) -> None:
        done = [bytearray(len(home.work)) for home in homes]
        tasks = (task for number, home in enumerate(homes) for task in home.tasks(number))
        reads = readers.read([(home.agent, home.home.root) for home in homes], tasks)
        for home in homes:
            home.archive_others(pipeline)
        for ready in reads:
            number, position = ready.read[:2]
            progress.next(homes[number], homes[number].work[position].ref)
            homes[number].take_in_ready(homes[number].work[position], ready, pipeline)
            done[number][position] = True
        for home, is_done in zip(homes, done, strict=True):
            for position, outdated in enumerate(home.work):
                if not is_done[position]:
                    progress.next(home, outdated.ref)
                    home.run(outdated, pipeline)
            pipeline.write(home.finish)


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
        self,
        store: Store,
        agent: str,
        home: SessionSource,
        scan: Scan,
        report: Report,
        unreadable: Unreadable,
        forgotten: frozenset[str],
    ) -> None:
        self._store = store
        self._forgotten = forgotten
        """Sessions that are not imported."""
        self._report = report
        self._changed = {change.stat.path: change for change in scan.changes}
        self._unreadable = unreadable
        self._at = time.time()
        """The time of everything that is archived, so that a session's files that changed together form one version."""
        unreadable.add(scan.unreadable)
        self.agent = agent
        self.home = home

    def changes_of(self, ref: SessionRef) -> list[ChangedLog]:
        """Return the changed files of a session."""
        return [self._changed[path] for path in _paths(ref) if path in self._changed]

    def size_of(self, ref: SessionRef) -> int:
        """Return the total size of the changed files of a session."""
        return sum(change.stat.size for change in self.changes_of(ref))

    def _stored(self, ref: SessionRef) -> dict[str, StoredSession]:
        """Return the sessions that were read from one source before."""
        return self._store.sessions.from_source(self.agent, ref.id)

    def take_in_ready(self, outdated: _Outdated, reading: Reading, pipeline: Pipeline) -> None:
        """Write a new session that another process has read."""
        read, ref = reading.read, outdated.ref
        self._unreadable.add(read.faults)
        if read.is_gone:
            self._unreadable.note_changing(ref.path)
            return
        if read.failure:
            self._reject(outdated, read.failure, pipeline)
            return
        try:
            self._unreadable.check_new(_paths(ref))
        except HeldError as error:
            self._report.failures[ref.id] = str(error)
            return

        def write() -> None:
            stats, mark = {path: self._changed[path].stat for path in read.logs}, self._unreadable.mark()
            write_new(self._store, self.agent, ref.id, reading, stats, self._at, mark, self._forgotten)

        def write_all() -> None:
            pipeline.write(write, read.weight)
            self._report.new += sum(session.name not in self._forgotten for session in read.sessions)

        # The results are discarded before the transaction ends. In the rare case that it fails, they are read again.
        pipeline.session(
            write_all,
            lambda error: self._reject(outdated, _described(error), pipeline),
            again=lambda: self._ingest(outdated, pipeline),
        )

    def run(self, outdated: _Outdated, pipeline: Pipeline) -> None:
        """Read and write one session. If that fails, it is left as it is, and the others are not affected."""
        pipeline.session(
            lambda: self._ingest(outdated, pipeline),
            lambda error: self._reject(outdated, _described(error), pipeline),
        )

    def _reject(self, outdated: _Outdated, why: str, pipeline: Pipeline) -> None:
        """Report a session that cannot be read or written, and archive its files."""
        ref = outdated.ref
        self._report.failures[ref.id] = self._unreadable.reject(ref.path, why)
        stored = self._stored(ref) if outdated.is_known else {}
        pipeline.session(lambda: self._hold(ref, stored, pipeline), lambda _: None)

    def _ingest(self, outdated: _Outdated, pipeline: Pipeline) -> None:
        """Read one session and write all of it, or nothing if something could not be read."""
        ref = outdated.ref
        stored = self._stored(ref) if outdated.is_known else {}
        queue = WriteQueue(pipeline)
        try:
            self._read(outdated, stored, queue)
        except (LogChangedError, FileNotFoundError) as error:
            queue.cancel(error)
            self._unreadable.note_changing(ref.path)
        except (HeldError, DamagedError, OSError) as error:
            queue.cancel(error)
            self._report.failures[ref.id] = str(error)
            self._hold(ref, stored, pipeline)
        except Exception as error:
            if queue.has_written or not concerns_session(error):
                raise
            queue.cancel(error)
            self._report.failures[ref.id] = self._unreadable.reject(ref.path, _described(error))
            self._hold(ref, stored, pipeline)

    def _read(self, outdated: _Outdated, stored: dict[str, StoredSession], queue: WriteQueue) -> None:
        ref, paths = outdated.ref, _paths(outdated.ref)
        with collect_faults() as faults:
            try:
                around = surroundings(self.home, ref) if outdated.around is None else outdated.around
                files = [self._archive(path, queue) for path in paths]
                read = self._read_sessions(outdated, stored, queue)
            finally:
                self._unreadable.add(faults.errors)
        self._check(outdated, stored, faults)
        if outdated.same_files and any(writer.is_wrong for _, writer in read):
            queue.cancel(LogChangedError("the session has to be read again"))
            self._read(outdated._replace(same_files=False), stored, queue)
            return
        around = self._unreadable.mark() + around
        left = dict(stored)
        for ingest, writer in read:
            ending = writer.finish()
            queue.add(partial(_finish, ingest, ending, around, files), ending.weight)
            before = left.pop(ingest.name, None)
            self._report.new += before is None
            self._report.changed += before is not None
        for session in left.values():
            if self._was_replaced(ref):
                queue.add(partial(self._set_gone, session.id))
            else:
                queue.add(partial(remove_session, self._store, self.agent, session.id, session.name))
        queue.flush()

    def _archive(self, path: Path, queue: WriteQueue) -> Archiving | FileRow | None:
        """Bring the archive of a file up to date; returns an object that has the id of its row once that is written."""
        change = self._changed.get(path)
        if change is None:
            return self._store.files.at(name_of(path))
        return archive_log(self._store, change, self._at, queue.add)

    def _read_sessions(
        self, outdated: _Outdated, stored: dict[str, StoredSession], queue: WriteQueue
    ) -> list[tuple[SessionIngest, SessionWriter]]:
        store, ref = self._store, outdated.ref
        grew = outdated.same_files and not self._was_replaced(ref)
        found: dict[str, tuple[SessionIngest, SessionWriter]] = {}

        def make(id: str, kind: m.Kind) -> SessionBuilder | None:
            if id in self._forgotten:
                return None
            ingest = SessionIngest(store, self.agent, id, ref.id, stored.get(id), grew)
            writer = ingest.writer(lambda piece: queue.add(lambda: ingest.write(piece), piece.weight))
            queue.add(ingest.begin)
            found[id] = ingest, writer
            return ingest.builder(writer, kind)

        builders = finish(self.home.read(ref, make))
        return [found[builder.id] for builder in builders if builder.id in found]

    def _was_replaced(self, ref: SessionRef) -> bool:
        """Whether a file of a session was truncated, edited or rewritten."""
        return any(change.how in REPLACED for change in self.changes_of(ref))

    def _check(self, outdated: _Outdated, stored: dict[str, StoredSession], faults: Faults) -> None:
        """Raise an error unless everything that the stored session may depend on could be read."""
        paths = _paths(outdated.ref)
        for path in paths:
            if path in faults.gone:
                raise faults.gone[path]
        self._unreadable.check_new(paths)
        files = [file.path for session in stored.values() for file in self._store.files.of_session(session.id)]
        if stored:
            self._unreadable.check_stored(files)

    def _hold(self, ref: SessionRef, stored: dict[str, StoredSession], pipeline: Pipeline) -> None:
        """Archive the readable files of a session that stays as it is, and have the next run read it."""
        for change in self.changes_of(ref):
            self._archive_alone(change, pipeline)
        for session in stored.values():
            pipeline.write(partial(self._store.sessions.set_unsettled, session.id))

    def _archive_alone(self, change: ChangedLog, pipeline: Pipeline) -> OSError | None:
        """Archive a file without reading its sessions; returns the error if it cannot be read.

        Sessions that were read from it are marked to be read again, because the file will no longer look changed.
        """
        queue = WriteQueue(pipeline)
        try:
            archive_log(self._store, change, self._at, queue.add)
        except (LogChangedError, FileNotFoundError) as error:
            queue.cancel(error)
            self._unreadable.note_changing(change.stat.path)
            return None
        except OSError as error:
            queue.cancel(error)
            return error
        if change.before is not None and change.how != "touched":
            for session in self._store.files.sessions_of(change.before.id):
                queue.add(partial(self._store.sessions.set_unsettled, session))
        queue.flush()
        return None

    def _set_gone(self, session: int) -> None:
        """Mark a session that is no longer on disk, and add that to the change log."""
        if self._store.sessions.set_gone(session, self._at):
            self._store.changes.append("session.gone", session)
            self._report.gone += 1


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _finish(ingest: SessionIngest, ending: Ending, around: str, files: list[Archiving | FileRow | None]) -> None:
    ingest.finish(ending, around, [file.id for file in files if file is not None])


class _HomeSync(_Ingest):
    """Syncs one agent's folder."""

    def __init__(
        self,
        store: Store,
        agent: str,
        root: Path,
        scan: Scan,
        report: Report,
        unreadable: Unreadable,
        forgotten: frozenset[str],
        may_share: bool,
    ) -> None:
        super().__init__(store, agent, AGENTS[agent].open(root), scan, report, unreadable, forgotten)
        self._missing = scan.missing
        with collect_faults() as faults:
            before = store.sessions.fingerprints(agent)
            is_large = may_share and not before and sum(change.stat.size for change in scan.changes) >= WORTH_IT
            refs = _each_once(agent, list_elsewhere(self.home) if is_large and can_share() else self.home.refs())
            around = {ref.id: self._surroundings(ref) for ref in refs if ref.id in before}
        unreadable.add(faults.errors)
        self._refs = {ref.id: ref for ref in refs if ref.id not in forgotten}
        own = {path for ref in refs for path in _paths(ref)}
        share_paths(self._changed, own)
        self._others = [change for path, change in self._changed.items() if path not in own]
        self.work = self._outdated(before, around)
        key = reading_order(self.refs(), self.changed_at)
        self.work.sort(key=lambda outdated: key(outdated.ref))

    @cached_property
    def _ids(self) -> dict[str, list[int]]:
        return self._store.sessions.ids_by_source(self.agent)

    def _stored(self, ref: SessionRef) -> dict[str, StoredSession]:
        return self._store.sessions.from_source(self.agent, ref.id, self._ids.get(ref.id, ()))

    def _surroundings(self, ref: SessionRef) -> str:
        try:
            return surroundings(self.home, ref)
        except Exception as error:
            if isinstance(error, OSError) or not concerns_session(error):
                raise
            # This differs from every fingerprint, so the session is read, which reports the error.
            return "?"

    def _outdated(self, before: dict[str, str], now: dict[str, str]) -> list[_Outdated]:
        """Find the sessions to read: their files changed, or something else that they depend on."""
        changed = {path: change for path, change in self._changed.items() if change.how != "touched"}
        files: dict[str, set[str | None]] = {}
        for _, id, path in self._store.sessions.present(self.agent):
            files.setdefault(id, set()).add(path)
        mark = self._unreadable.mark()
        found = []
        for ref in self._refs.values():
            if not any(path in changed for path in _paths(ref)) and self._unreadable.is_rejected(ref.path):
                continue
            around = now.get(ref.id)
            if around is None:
                found.append(_Outdated(ref, None, is_known=False, same_files=False))
                continue
            paths = _paths(ref)
            same_files = before[ref.id] != READ_AGAIN and files.get(ref.id) == {
                _path_before(path, changed) for path in paths
            }
            is_same = same_files and any(is_same_around(before[ref.id], start + around) for start in ("", mark))
            if not is_same or any(path in changed for path in paths):
                found.append(_Outdated(ref, around, is_known=True, same_files=same_files))
        return found

    def tasks(self, number: int) -> Iterator[Task]:
        """Iterate over the sessions that other processes can read; `number` is the index of this folder."""
        for position, outdated in enumerate(self.work):
            if not outdated.is_known and self._can_be_shared(outdated.ref):
                yield Task(number, position, outdated.ref, self.changes_of(outdated.ref))

    def _can_be_shared(self, ref: SessionRef) -> bool:
        """Whether another process can read a new session."""
        is_new = all(path in self._changed and self._changed[path].how == "new" for path in _paths(ref))
        return is_new and not self.has_gone and self.size_of(ref) < TOO_LARGE

    @cached_property
    def has_gone(self) -> bool:
        """Whether sessions are gone from disk. Then reading needs the store, as new sessions may be forks of those."""
        filter = SessionFilter(machine=self._store.machine, agent=self.agent, is_gone=True)
        return bool(self._missing) or self._store.sessions.count(filter) > 0

    def refs(self) -> list[SessionRef]:
        """Return the sessions to read."""
        return [outdated.ref for outdated in self.work]

    def keep(self, ids: set[str]) -> None:
        """Drop all other sessions."""
        self.work = [outdated for outdated in self.work if outdated.ref.id in ids]

    def peek(self, ref: SessionRef) -> Peek:
        """Return what the first lines of a session say."""
        return self.home.peek(ref)

    def changed_at(self, ref: SessionRef) -> int:
        """Return when the files of a session last changed, in nanoseconds since 1970."""
        return _newest(ref, self._changed)

    def archive_others(self, pipeline: Pipeline) -> None:
        """Archive changed files that contain no session but may affect some, and files that were only touched."""
        read = {path for outdated in self.work for path in _paths(outdated.ref)}
        touched = [change for path, change in self._changed.items() if change.how == "touched" and path not in read]
        for change in {change.stat.path: change for change in (*self._others, *touched)}.values():
            error = self._archive_alone(change, pipeline)
            if error is not None:
                self._unreadable.add({change.stat.path: error})

    def finish(self) -> None:
        """Mark files and sessions that are gone, and record what could not be read."""
        store, failures = self._store, self._report.failures
        names = {path: ref for _, ref, path in store.sessions.present(self.agent) if path is not None}
        names |= {name_of(path): ref.id for ref in self._refs.values() for path in _paths(ref)}
        for row in self._missing:
            store.files.put(row._replace(gone_at=self._at))
        # A session that is not listed may be in a file or folder that cannot be read.
        gone = {
            session
            for session, ref, path in store.sessions.present(self.agent)
            if ref not in self._refs
            and (path is None or (is_inside(path, name_of(self.home.root)) and not self._unreadable.now))
        }
        for session in sorted(gone):
            self._set_gone(session)
        for path, why in self._unreadable.now.items():
            failures.setdefault(names.get(path, path), f"{path}: {why}" if path in names else why)
        store.files.set_unreadable(self._unreadable.before, self._unreadable.for_next_run, self._at)


class _Outdated(NamedTuple):
    """A session that has to be read."""

    ref: SessionRef
    around: str | None
    """The fingerprint of its surroundings; None for a new session, which gets it when it is read."""
    is_known: bool
    same_files: bool
    """Whether it was read from the same files before, even if they were elsewhere."""


def _paths(ref: SessionRef) -> list[Path]:
    return [ref.path, *ref.more]


def _each_once(agent: str, refs: Iterable[SessionRef]) -> list[SessionRef]:
    """Return one session for each id: moving a project leaves copies, and the newest one counts."""
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


def _is_at(path: str, root: Path) -> bool:
    return path == name_of(root) or is_inside(path, name_of(root))
