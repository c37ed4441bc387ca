"""Brings a store up to date with the agents' files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..agents import AGENTS, SessionRef, SessionSource
from ..io.faults import collect_faults, describe_fault, reason_of
from ..io.files import is_inside, name_of
from ..library import Library
from ..store import Store
from ..store.decision_log import decision_marks
from ..store.forgotten import Exclusions, ForgottenSession, exclusions
from ..store.rows import FileRow
from .copies import choose_copies, was_read_from
from .folder_ingest import FolderIngest, OutdatedSession, paths_of
from .folder_sync import FolderSync
from .helper_process import can_share
from .reader_pool import WORTH_IT, ReaderPool
from .redacted_push import check_complete
from .scan import Scan, compare, session_fingerprint, stat_log
from .sync_report import Progress as Progress
from .sync_report import Report as Report
from .sync_report import ReportCounts
from .sync_selection import SyncSelection
from .transactions import Pipeline, concerns_session
from .unreadable import Unreadable

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
        lists_changed_logs: bool = False,
    ) -> None:
        """`locations` as for a `Library`; with `may_share`, other processes help if there is much to read.

        Sessions that were forgotten in the store, or are passed as `forgotten`, are not read. With a `selection`, only
        some of the changed sessions are. `with_secrets` replaces redacted sessions. `lists_changed_logs` fills
        `changed_logs`, which needs memory for every changed file.
        """
        self._with_secrets = with_secrets
        self._selection = selection or SyncSelection()
        self._may_share = may_share
        self._forgotten = list(forgotten)
        self._store, self._locations = store, locations
        self._lists_changed_logs = lists_changed_logs
        self.changed_logs: list[Path] = []
        """The files that were new or different in the last run, if they are listed."""

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
        if ref is None or path not in paths_of(ref) or not home.contains(ref):
            return None
        store, report = self._store, Report()
        with store.exclusive():
            excluded = self._exclusions(agent)
            if ref.id in excluded.names:
                return report
            try:
                seen = [entry for path in paths_of(ref) if (entry := stat_log(agent, path)) is not None]
            except OSError:
                return None
            if sum(entry.size for entry in seen) > _AT_ONCE:
                return None
            names = [name_of(path) for path in paths_of(ref)]
            stored = store.sessions.from_source(agent, ref.id)
            if not all(was_read_from(store, session, ref) for session in stored.values()):
                return None
            known = {name: row for name in names if (row := store.files.at(name)) is not None}
            scan = compare(agent, (entry.source for entry in seen), known, store.files.intact_chunks)
            if scan.unreadable:
                return None
            if stored and not scan.changes:
                return report
            ingest = FolderIngest(store, agent, home, scan, report, Unreadable(home.root, known, {}), excluded.names)
            pipeline = Pipeline(store)
            try:
                ingest.run(OutdatedSession(ref, session_fingerprint(home, ref), bool(stored), bool(stored)), pipeline)
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
        scans = []
        for agent, root in self._agent_folders(report):
            inside = {path: row for path, row in known.items() if is_inside(path, name_of(root))}
            report.files += len(inside)
            before = {path: why for path, why in failed.items() if _is_at(path, root)}
            with _isolated(report, root):
                scan = self._compare_folder(agent, root, inside, readers)
                scans.append((agent, root, scan, Unreadable(root, inside, before)))
        # If a file is gone or was rewritten, a copy of it in another folder may count from now on.
        lacking = {agent for agent, _, scan, _ in scans if scan.has_lost}
        homes = []
        for agent, root, scan, unreadable in scans:
            if any(scan) or unreadable.before or agent in lacking or self._is_unsettled(agent, open_too):
                with _isolated(report, root):
                    names, _ = self._exclusions(agent)
                    homes.append(FolderSync(store, agent, root, scan, report, unreadable, names, readers.has_started))
        if not homes:
            return
        choose_copies(homes)
        self._selection.apply(homes)
        try:
            self._read_homes(homes, pipeline, readers, _ProgressReporter(homes, report, on_progress))
        except BaseException as error:
            pipeline.cancel(error)
            raise
        pipeline.commit()

    def _compare_folder(self, agent: str, root: Path, known: dict[str, FileRow], readers: ReaderPool) -> Scan:
        """Compare an agent's folder with the archive."""
        _, paths = self._exclusions(agent)
        logs = (log for log in AGENTS[agent].logs(root) if not paths or name_of(log.path) not in paths)
        scan = compare(agent, logs, known, self._store.files.intact_chunks, readers.expect)
        if self._lists_changed_logs:
            self.changed_logs += [change.stat.path for change in scan.changes if change.is_new_on_disk]
        return scan

    def _agent_folders(self, report: Report) -> list[tuple[str, Path]]:
        """Return the agents' folders in all locations. A location that cannot be examined does not affect others."""
        with collect_faults() as faults:
            try:
                found = Library(*self._locations).homes()
            except OSError as error:
                faults.note(error, Path(self._locations[0] if self._locations else error.filename))
                found = []
        report.failures |= {name_of(path): reason_of(error) for path, error in faults.errors.items()}
        return found

    def _is_unsettled(self, agent: str, open_too: bool) -> bool:
        """Whether sessions have to be read again although no file has changed."""
        sessions = self._store.sessions
        if sessions.has_unsettled(agent) or (open_too and sessions.has_open(agent)):
            return True
        marks = decision_marks(agent)
        known = sessions.fingerprints(agent) if marks else {}
        return any(not known[session].endswith(mark) for session, mark in marks.items() if session in known)

    def _read_homes(
        self, homes: list[FolderSync], pipeline: Pipeline, readers: ReaderPool, progress: _ProgressReporter
    ) -> None:
        tasks = (task for number, home in enumerate(homes) for task in home.tasks(number))
        reads = readers.read([(home.agent, home.home.root) for home in homes], tasks)
        for home in homes:
            home.archive_others(pipeline)
        for spooled in reads:
            number, position = spooled.result.home, spooled.result.position
            home, outdated = homes[number], homes[number].work.pop(position)
            progress.next(home, outdated.ref)
            home.ingest_spooled(outdated, spooled, pipeline)
            home.record_unreadable(outdated.ref)
        for home in homes:
            for position in list(home.work):
                outdated = home.work.pop(position)
                progress.next(home, outdated.ref)
                home.run(outdated, pipeline)
                home.record_unreadable(outdated.ref)
        # A session that is gone from one folder may have been read from another one.
        for home in homes:
            pipeline.write(home.finish)


class _ProgressReporter:
    """Reports the progress of a run."""

    def __init__(self, homes: list[FolderSync], report: Report, on_progress: Callable[[Progress], None] | None) -> None:
        self._report = report
        self._on_progress = on_progress
        self._sessions = sum(len(home.work) for home in homes)
        self._bytes = sum(home.size_of(outdated.ref) for home in homes for outdated in home.work.values())
        self._count = 0

    def next(self, home: FolderSync, ref: SessionRef) -> None:
        """Report the next session."""
        if self._on_progress is not None:
            self._on_progress(Progress(self._count, self._sessions, self._report.bytes, self._bytes, ref.id))
        self._count += 1
        self._report.bytes += home.size_of(ref)


@contextmanager
def _isolated(report: Report, root: Path) -> Iterator[None]:
    """Report a folder that cannot be compared. It may be readable again later: its sessions are not gone."""
    try:
        yield
    except OSError as error:
        report.failures[name_of(root)] = describe_fault(error)
    except Exception as error:
        if not concerns_session(error):
            raise
        report.failures[name_of(root)] = f"{type(error).__name__}: {error}"


def _is_at(path: str, root: Path) -> bool:
    return path == name_of(root) or is_inside(path, name_of(root))
