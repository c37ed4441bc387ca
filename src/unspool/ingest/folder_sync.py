"""Finds out which sessions of an agent's folder a sync has to read, and which ones are gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from ..agents import AGENTS, Peek, SessionRef
from ..io.faults import collect_faults
from ..io.files import is_inside, name_of
from ..io.listing import may_exist
from ..store import Store
from ..store.filters import SessionFilter
from ..store.rows import READ_AGAIN, StoredSession
from .copies import OtherCopies
from .folder_ingest import FolderIngest, OutdatedSession, paths_of
from .reader_pool import TOO_LARGE, Task
from .reading_order import reading_order
from .scan import ChangedLog, Scan, is_same_fingerprint, session_fingerprint, share_paths
from .session_listing import list_in_subprocess
from .sync_report import Report
from .transactions import Pipeline, concerns_session
from .unreadable import Unreadable


class FolderSync(FolderIngest):
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
        is_large: bool,
    ) -> None:
        super().__init__(store, agent, AGENTS[agent].open(root), scan, report, unreadable, forgotten)
        self._missing = scan.missing
        self.listed_elsewhere: frozenset[str] = frozenset()
        """The sessions that other folders of this run have."""
        with collect_faults() as faults:
            before = store.sessions.fingerprints(agent)
            refs = _each_once(agent, list_in_subprocess(self.home) if is_large and not before else self.home.refs())
            fingerprints = {ref.id: self._fingerprint(ref) for ref in refs if ref.id in before}
        unreadable.add(faults.errors)
        listed = {ref.id: ref for ref in refs if ref.id not in forgotten}
        self.listed = frozenset(listed)
        own = {path for ref in refs for path in paths_of(ref)}
        share_paths(self._changed, own)
        self._others = [change for path, change in self._changed.items() if path not in own]
        outdated = self._outdated(listed.values(), before, fingerprints)
        key = reading_order((one.ref for one in outdated), self.changed_at)
        outdated.sort(key=lambda one: key(one.ref))
        self.work = dict(enumerate(outdated))
        """The sessions to read. They are removed one by one, because many sessions need much memory."""
        self._names: dict[str, str] = {}
        """The sessions of files that could not be read, by path."""
        for ref in listed.values():
            self.record_unreadable(ref)

    @cached_property
    def _ids(self) -> dict[str, list[int]]:
        return self._store.sessions.ids_by_source(self.agent)

    def _stored(self, ref: SessionRef) -> dict[str, StoredSession]:
        return self._store.sessions.from_source(self.agent, ref.id, self._ids.get(ref.id, ()))

    def _fingerprint(self, ref: SessionRef) -> str:
        try:
            return session_fingerprint(self.home, ref)
        except Exception as error:
            if isinstance(error, OSError) or not concerns_session(error):
                raise
            # This differs from every fingerprint, so the session is read, which reports the error.
            return "?"

    def record_unreadable(self, ref: SessionRef) -> None:
        """Note the files of a session that could not be read, to report them under its name."""
        if self._unreadable.now:
            self._names |= {name: ref.id for path in paths_of(ref) if (name := name_of(path)) in self._unreadable.now}

    def _outdated(
        self, refs: Iterable[SessionRef], before: dict[str, str], now: dict[str, str]
    ) -> list[OutdatedSession]:
        """Find the sessions to read: their files changed, or something else that they depend on."""
        changed = {path: change for path, change in self._changed.items() if change.how != "touched"}
        files: dict[str, set[str | None]] = {}
        for _, id, path in self._store.sessions.present(self.agent):
            files.setdefault(id, set()).add(path)
        mark = self._unreadable.mark()
        copies = OtherCopies(self.home, files)
        found = []
        for ref in refs:
            if copies.are_current(ref):
                self._others += self.changes_of(ref)
                continue
            if not any(path in changed for path in paths_of(ref)) and self._unreadable.is_rejected(ref.path):
                continue
            fingerprint = now.get(ref.id)
            if fingerprint is None:
                found.append(OutdatedSession(ref, None, is_known=False, same_files=False))
                continue
            paths = paths_of(ref)
            same_files = before[ref.id] != READ_AGAIN and files.get(ref.id) == {
                _path_before(path, changed) for path in paths
            }
            is_same = same_files and any(
                is_same_fingerprint(before[ref.id], start + fingerprint) for start in ("", mark)
            )
            if not is_same or any(path in changed for path in paths):
                found.append(OutdatedSession(ref, fingerprint, is_known=True, same_files=same_files))
        return found

    def tasks(self, number: int) -> Iterator[Task]:
        """Iterate over the sessions that other processes can read; `number` is the index of this folder."""
        for position in list(self.work):
            outdated = self.work[position]
            if not outdated.is_known and self._can_be_shared(outdated.ref):
                yield Task(number, position, outdated.ref, self.changes_of(outdated.ref))

    def _can_be_shared(self, ref: SessionRef) -> bool:
        """Whether another process can read a new session."""
        is_new = all(path in self._changed and self._changed[path].how == "new" for path in paths_of(ref))
        return is_new and not self.has_gone and self.size_of(ref) < TOO_LARGE

    @cached_property
    def has_gone(self) -> bool:
        """Whether sessions are gone from disk. Then reading needs the store, as new sessions may be forks of those."""
        filter = SessionFilter(machine=self._store.machine, agent=self.agent, is_gone=True)
        return bool(self._missing) or self._store.sessions.count(filter) > 0

    def refs(self) -> list[SessionRef]:
        """Return the sessions to read."""
        return [outdated.ref for outdated in self.work.values()]

    def keep(self, ids: set[str]) -> None:
        """Drop all other sessions."""
        self.work = {position: outdated for position, outdated in self.work.items() if outdated.ref.id in ids}

    def leave_out(self, ids: set[str]) -> None:
        """Drop sessions that are read from another folder; only their files are archived."""
        self._others += [change for ref in self.refs() if ref.id in ids for change in self.changes_of(ref)]
        self.keep({ref.id for ref in self.refs()} - ids)

    def peek(self, ref: SessionRef) -> Peek:
        """Return what the first lines of a session say."""
        return self.home.peek(ref)

    def changed_at(self, ref: SessionRef) -> int:
        """Return when the files of a session last changed, in nanoseconds since 1970."""
        return _newest(ref, self._changed)

    def archive_others(self, pipeline: Pipeline) -> None:
        """Archive changed files that contain no session but may affect some, and files that were only touched."""
        read = {path for outdated in self.work.values() for path in paths_of(outdated.ref)}
        touched = [change for path, change in self._changed.items() if change.how == "touched" and path not in read]
        for change in {change.stat.path: change for change in (*self._others, *touched)}.values():
            error = self._archive_alone(change, pipeline)
            if error is not None:
                self._unreadable.add({change.stat.path: error})

    def finish(self) -> None:
        """Mark files and sessions that are gone, and record what could not be read."""
        store, failures, unreadable = self._store, self._report.failures, self._unreadable.now
        names = self._names
        if unreadable:
            present = store.sessions.present(self.agent)
            names = {path: ref for _, ref, path in present if path in unreadable} | names
        for row in self._missing:
            store.files.put(row._replace(gone_at=self._at))
        # A session that is not listed may be in a file or folder that cannot be read.
        gone = {
            session
            for session, ref, path in store.sessions.present(self.agent)
            if ref not in self.listed
            and ref not in self.listed_elsewhere
            and (path is None or (is_inside(path, name_of(self.home.root)) and not unreadable))
        }
        for session in sorted(gone):
            if self._has_copy(session):
                # The next run that looks at the folder of the copy reads it.
                store.sessions.set_unsettled(session)
            else:
                self._set_gone(session)
        for path, why in unreadable.items():
            failures.setdefault(names.get(path, path), f"{path}: {why}" if path in names else why)
        store.files.set_unreadable(self._unreadable.before, self._unreadable.for_next_run, self._at)

    def _has_copy(self, session: int) -> bool:
        """Whether a file of a session, which is gone from this folder, exists in another one, which is archived too."""
        root = name_of(self.home.root)
        inside = {file.path.removeprefix(root) for file in self._store.files.of_session(session)}
        return any(may_exist(path) for ending in inside for path in self._archived_elsewhere.get(ending, ()))

    @cached_property
    def _archived_elsewhere(self) -> dict[str, list[str]]:
        """The archived files of other folders of this agent, by their path inside such a folder."""
        root_of = AGENTS[self.agent].root_of
        found: dict[str, list[str]] = {}
        for path, row in self._store.files.all().items():
            if row.agent == self.agent and row.gone_at is None and not is_inside(path, name_of(self.home.root)):
                found.setdefault(path.removeprefix(name_of(root_of(Path(path)))), []).append(path)
        return found


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
    return max((changed[path].stat.changed for path in paths_of(ref) if path in changed), default=0)
