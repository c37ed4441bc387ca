"""Reads sessions of one agent's folder that have changed, and writes them to the store."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..agents import SessionRef, SessionSource, finish
from ..core import model as m
from ..core.builder import SessionBuilder
from ..core.errors import DamagedError
from ..io.faults import Faults, collect_faults, describe_fault
from ..io.files import name_of
from ..store import Store
from ..store.rows import FileRow, StoredSession
from .archive import Archiving, LogChangedError, archive_log
from .read_parts import SpooledResult, write_new
from .scan import REPLACED, ChangedLog, Scan, session_fingerprint
from .session import SessionIngest, WriteQueue, remove_session
from .sync_report import Report
from .transactions import Pipeline, concerns_session
from .unreadable import HeldError, Unreadable
from .writer import Ending, SessionWriter


class OutdatedSession(NamedTuple):
    """A session that has to be read."""

    ref: SessionRef
    fingerprint: str | None
    """See `session_fingerprint`; None for a new session, which gets it when it is read."""
    is_known: bool
    same_files: bool
    """Whether it was read from the same files before, even if they were elsewhere."""


def paths_of(ref: SessionRef) -> list[Path]:
    """Return all logs of a session, in reading order."""
    return [ref.path, *ref.more]


class FolderIngest:
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
        return [self._changed[path] for path in paths_of(ref) if path in self._changed]

    def size_of(self, ref: SessionRef) -> int:
        """Return the total size of the changed files of a session."""
        return sum(change.stat.size for change in self.changes_of(ref))

    def _stored(self, ref: SessionRef) -> dict[str, StoredSession]:
        """Return the sessions that were read from one source before."""
        return self._store.sessions.from_source(self.agent, ref.id)

    def ingest_spooled(self, outdated: OutdatedSession, spooled: SpooledResult, pipeline: Pipeline) -> None:
        """Write a new session that another process has read."""
        result, ref = spooled.result, outdated.ref
        self._unreadable.add(result.faults)
        if result.is_gone:
            self._unreadable.note_changing(ref.path)
            return
        if result.failure:
            self._reject(outdated, result.failure, pipeline)
            return
        try:
            self._unreadable.check_new(paths_of(ref))
        except HeldError as error:
            self._report.failures[ref.id] = str(error)
            return

        # Of a session that was written, nothing has to stay in memory, unless the transaction is rolled back.
        changes = {path: self._changed.pop(path) for path in result.logs if path in self._changed}
        if changes.keys() != result.logs.keys():
            # Another session was read from the same file.
            self._changed |= changes
            self.run(outdated, pipeline)
            return

        def write() -> None:
            stats, mark = {path: change.stat for path, change in changes.items()}, self._unreadable.mark()
            write_new(self._store, self.agent, ref.id, spooled, stats, self._at, mark, self._forgotten)

        def write_all() -> None:
            pipeline.write(write, result.weight)
            self._report.new += sum(session.name not in self._forgotten for session in result.sessions)

        def read_again() -> None:
            self._changed.update(changes)
            self._ingest(outdated, pipeline)

        def fail(error: Exception) -> None:
            self._changed.update(changes)
            self._reject(outdated, _described(error), pipeline)

        # The results are discarded before the transaction ends. In the rare case that it fails, they are read again.
        pipeline.session(write_all, fail, again=read_again)

    def run(self, outdated: OutdatedSession, pipeline: Pipeline) -> None:
        """Read and write one session. If that fails, it is left as it is, and the others are not affected."""
        pipeline.session(
            lambda: self._ingest(outdated, pipeline),
            lambda error: self._reject(outdated, _described(error), pipeline),
        )

    def _reject(self, outdated: OutdatedSession, why: str, pipeline: Pipeline) -> None:
        """Report a session that cannot be read or written, and archive its files."""
        ref = outdated.ref
        self._report.failures[ref.id] = self._unreadable.reject(ref.path, why)
        stored = self._stored(ref) if outdated.is_known else {}
        pipeline.session(lambda: self._hold(ref, stored, pipeline), lambda _: None)

    def _ingest(self, outdated: OutdatedSession, pipeline: Pipeline) -> None:
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
            self._report.failures[ref.id] = describe_fault(error) if isinstance(error, OSError) else str(error)
            self._hold(ref, stored, pipeline)
        except Exception as error:
            if queue.has_written or not concerns_session(error):
                raise
            queue.cancel(error)
            self._report.failures[ref.id] = self._unreadable.reject(ref.path, _described(error))
            self._hold(ref, stored, pipeline)

    def _read(self, outdated: OutdatedSession, stored: dict[str, StoredSession], queue: WriteQueue) -> None:
        ref, paths = outdated.ref, paths_of(outdated.ref)
        with collect_faults() as faults:
            try:
                fingerprint = (
                    session_fingerprint(self.home, ref) if outdated.fingerprint is None else outdated.fingerprint
                )
                files = [self._archive(path, queue) for path in paths]
                read = self._read_sessions(outdated, stored, queue)
            finally:
                self._unreadable.add(faults.errors)
        self._check(outdated, stored, faults)
        if outdated.same_files and any(writer.is_wrong for _, writer in read):
            queue.cancel(LogChangedError("the session has to be read again"))
            self._read(outdated._replace(same_files=False), stored, queue)
            return
        fingerprint = self._unreadable.mark() + fingerprint
        left = dict(stored)
        for ingest, writer in read:
            ending = writer.finish()
            queue.add(partial(_finish, ingest, ending, fingerprint, files), ending.weight)
            before = left.pop(ingest.name, None)
            self._report.new += before is None
            self._report.changed += before is not None
        for session in left.values():
            queue.add(partial(self._end, session, files))
        queue.flush()

    def _end(self, session: StoredSession, files: list[Archiving | FileRow | None]) -> None:
        """Remove a session that is not in its files after all, unless only older versions of the files have it."""
        now = {file.id for file in files if file is not None}
        if all(file.id in now for file in self._store.files.of_session(session.id)):
            remove_session(self._store, self.agent, session.id, session.name)
        else:
            self._set_gone(session.id)

    def _archive(self, path: Path, queue: WriteQueue) -> Archiving | FileRow | None:
        """Bring the archive of a file up to date; returns an object that has the id of its row once that is written."""
        change = self._changed.get(path)
        if change is None:
            return self._store.files.at(name_of(path))
        return archive_log(self._store, change, self._at, queue.add)

    def _read_sessions(
        self, outdated: OutdatedSession, stored: dict[str, StoredSession], queue: WriteQueue
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

    def _check(self, outdated: OutdatedSession, stored: dict[str, StoredSession], faults: Faults) -> None:
        """Raise an error unless everything that the stored session may depend on could be read."""
        paths = paths_of(outdated.ref)
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


def _finish(ingest: SessionIngest, ending: Ending, fingerprint: str, files: list[Archiving | FileRow | None]) -> None:
    ingest.finish(ending, fingerprint, [file.id for file in files if file is not None])
