"""Watches the agents' folders and updates the store within moments of every change.

Appended lines and new sessions are stored immediately. A little later, when a session has not changed for a while, it
is read as a whole, together with everything else that changed.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from ..agents import AGENTS, SessionSource
from ..core.errors import NotFoundError
from ..io.files import name_of
from ..io.listing import walk_files
from ..library import Library, expanded
from ..store import Store
from ..store.decision_log import DecisionChanges
from ..store.rows import Change, FileRow
from .archive import LogChangedError
from .copies import was_read_from
from .file_changes import FileChanges, pause
from .scan import mark_of, stat_log
from .store_health import StoreHealth
from .sync import Progress, Syncer
from .sync_schedule import QUIET_SECONDS, SOON_SECONDS, SyncSchedule
from .tail import OutdatedTailError, SessionTail
from .transactions import concerns_session

_MAX_TAILS = 32
_DISCOVERY_SECONDS = 2.0
"""Interval between searches for new agents' folders."""


class Watcher:
    """Keeps a store up to date. It must only be used by one thread."""

    def __init__(self, store: Store, *locations: str | Path, polling: bool = False, verifies: bool = False) -> None:
        """`polling` compares all files regularly, for drives without change notifications.

        With `verifies`, the store is maintained, verified and repaired while nothing changes.
        """
        self._store = store
        self._locations = locations
        self._file_changes = FileChanges(polling)
        self._tails: OrderedDict[Path, SessionTail] = OrderedDict()
        self._schedule = SyncSchedule()
        self._homes: dict[Path, tuple[str, SessionSource | None]] = {}
        self._inodes: dict[Path, int] = {}
        self._sync = Syncer(store)
        self._find_homes()
        self._health = StoreHealth(store, verifies)
        self._decisions = DecisionChanges()

    @property
    def failures(self) -> dict[str, str]:
        """Why sessions could not be read in the last sync, and what is damaged in the store, by session or file."""
        return self._health.failures

    @property
    def slow_reason(self) -> str | None:
        """Why changes are noticed a few seconds late; None if they are not, or if polling was requested."""
        return self._file_changes.slow_reason

    def read_all(
        self, report: Callable[[Progress], None] | None = None, committed: Callable[[], None] | None = None
    ) -> None:
        """Store everything that exists already; other processes help if there is much to read."""
        locations = self._existing_locations()
        if self._homes and self._can_sync(locations):
            sync = Syncer(self._store, *locations, may_share=True)
            self._health.unread = sync.run(report, committed).failures

    def follow(self, stop: threading.Event | None = None) -> Iterator[list[Change]]:
        """Yield new entries of the change log until `stop` is set.

        An empty list means that `failures` or `slow_reason` changed.
        """
        seen, state = self._store.changes.last_seq(), (self.failures, self.slow_reason)
        while stop is None or not stop.is_set():
            if not self._homes:
                pause(_DISCOVERY_SECONDS, stop)
                self._find_homes()
                continue
            inodes, checked = self._inodes, time.monotonic()
            self._schedule.due = checked
            for found in self._changes(stop):
                for _ in self._steps(set(found)):
                    while entries := self._store.changes.since(seen):
                        seen = entries[-1].seq
                        yield entries
                    if (self.failures, self.slow_reason) != state:
                        state = (self.failures, self.slow_reason)
                        yield []
                    if stop is not None and stop.is_set():
                        return
                if time.monotonic() - checked > _DISCOVERY_SECONDS:
                    checked = time.monotonic()
                    self._find_homes()
                    if self._inodes != inodes:
                        break
            else:
                return

    def _changes(self, stop: threading.Event | None) -> Iterator[list[Path]]:
        """Iterate over lists of changed paths; a list is empty if nothing changed for a while."""
        reason = self.slow_reason
        for found in self._file_changes.watch({root: agent for root, (agent, _) in self._homes.items()}, stop):
            if reason != (reason := self.slow_reason):
                # Changes from before the files were first polled are found by a sync.
                self._schedule.add(0.0)
            yield found

    def ingest(self, paths: set[Path]) -> None:
        """Store the changes of some files, then sync if that is due."""
        for _ in self._steps(paths):
            pass

    def _steps(self, paths: set[Path]) -> Iterator[None]:
        """Do the same, yielding after each file and after the sync."""
        for path in sorted(paths):
            try:
                self._ingest_file(path)
            except OSError:
                # The next sync looks at it again, and reports it if it still cannot be read.
                self._schedule.add(SOON_SECONDS)
            yield
        if self._decisions.are_new():
            # Decisions affect sessions whose files may never change again.
            self._schedule.add(SOON_SECONDS)
        if self._schedule.is_full_due:
            self._schedule.add(0.0)
        if self._schedule.is_due:
            self._sync_all()
            yield
        elif self._schedule.due is None and not paths and self.verify_briefly():
            yield

    def verify_briefly(self) -> bool:
        """Verify a part of the store, if that is enabled and due; returns whether something may have changed."""
        locations = self._existing_locations()
        if not self._can_sync(locations) or not self._health.continue_briefly(*locations):
            return False
        # Sessions may have been rewritten, which the tails do not know.
        self._tails.clear()
        return True

    # --- homes ---

    def _find_homes(self) -> None:
        """Find the agents' folders that exist; known ones are retained while the disk cannot be read."""
        with suppress(OSError):
            self._look_for_homes()

    def _look_for_homes(self) -> None:
        locations = self._existing_locations()
        library = Library(*locations) if self._can_sync(locations) else Library.empty()
        found = [(agent, root) for agent, root in library.homes() if root.is_dir()]
        # A folder that was replaced by a new one has to be watched again.
        self._inodes = {root: root.stat().st_ino for _, root in found}
        self._sync = Syncer(self._store, *locations, lists_changed_logs=True)
        self._homes = {root: self._homes.get(root, (agent, None)) for agent, root in found}

    def _existing_locations(self) -> list[str | Path]:
        """Return the locations that contain an agent's folder."""
        return [location for location in self._locations if _has_agent_folder(expanded(location))]

    def _can_sync(self, locations: list[str | Path]) -> bool:
        """Whether there is something to sync. Without any location, the default ones would be synced."""
        return bool(locations) or not self._locations

    def _find_home(self, path: Path) -> tuple[str, Path] | None:
        """Return the agent and its folder if sessions may depend on a file at this path."""
        homes = ((agent, root) for root, (agent, _) in self._homes.items())
        return next((home for home in homes if _is_relevant(path, *home)), None)

    def _home(self, agent: str, root: Path) -> SessionSource:
        home = self._homes[root][1] or AGENTS[agent].open(root)
        self._homes[root] = agent, home
        return home

    # --- immediate ---

    def _ingest_file(self, path: Path) -> None:
        found = self._find_home(path)
        if found is None:
            return
        if path.is_dir():
            # Files that were created before the folder was watched were not reported.
            for file in walk_files(path):
                self._file_changes.note_in_folder(file)
                self._ingest_file(file)
        elif AGENTS[found[0]].is_log(path):
            if not self._append(path) and not self._sync_file(*found, path):
                self._schedule.add(SOON_SECONDS)
        elif not path.exists():
            self._schedule.add(SOON_SECONDS)

    def _append(self, path: Path) -> bool:
        """Store what was appended to a session; False if the file did not just grow."""
        try:
            tail = self._tails.get(path) or self._start_tail(path)
            if tail is None:
                return False
            with self._store.exclusive(), self._store.transaction():
                count = tail.ingest()
        except Exception as error:
            # The file was rewritten or stored by another process, or cannot be read, for whatever reason: this attempt
            # was rolled back. Reading the session as a whole reports the error.
            if not concerns_session(error) and not isinstance(error, LogChangedError | OutdatedTailError):
                raise
            self._tails.pop(path, None)
            return False
        self._tails.move_to_end(path)
        # Some lines can only be interpreted when it is known that none follow.
        self._schedule.add(QUIET_SECONDS if count else SOON_SECONDS)
        return True

    def _start_tail(self, path: Path) -> SessionTail | None:
        found = self._find_home(path)
        row = self._store.files.at(name_of(path))
        if found is None or row is None or row.gone_at is not None:
            return None
        agent, root = found
        if not _has_only_grown(agent, path, row):
            return None
        home = self._home(agent, root)
        ref = home.ref(path)
        stored = self._store.sessions.from_source(agent, ref.id) if ref is not None else {}
        if ref is None or ref.id not in stored or len(stored) > 1 or not SessionTail.can_follow(ref):
            return None
        if not was_read_from(self._store, stored[ref.id], ref):
            return None
        tail = SessionTail(self._store, home, ref, stored[ref.id])
        if tail.path != path:
            return None
        self._tails[path] = tail
        while len(self._tails) > _MAX_TAILS:
            self._tails.popitem(last=False)
        return tail

    def _sync_file(self, agent: str, root: Path, path: Path) -> bool:
        """Store a session that is new or was rewritten; False if the whole folder has to be synced."""
        if not path.exists():
            return False
        self._tails.pop(path, None)
        home = AGENTS[agent].open(root)
        try:
            report = self._sync.ingest(agent, home, path)
        except Exception as error:
            if not concerns_session(error):
                raise
            return False
        if report is None or report.failures:
            return False
        self._homes[root] = agent, home
        # It may affect other sessions: the one that started it, or the one it was copied from.
        self._schedule.add(QUIET_SECONDS)
        return True

    # --- delayed ---

    def _sync_all(self) -> None:
        """Read everything that changed, and check that the tails agree with it."""
        if not self._homes:
            return
        started = time.monotonic()
        is_full = self._schedule.is_full_due
        self._schedule.begin()
        try:
            report = self._sync.run(open_too=is_full)
        except NotFoundError:
            # A folder is gone. That is noticed soon, and it is watched again when it is back.
            self._schedule.add(QUIET_SECONDS)
            return
        self._health.unread = report.failures
        self._file_changes.compare_with_sync(self._sync.changed_logs)
        # What was cached about the folders may be outdated.
        self._homes = {root: (agent, None) for root, (agent, _) in self._homes.items()}
        for path, tail in list(self._tails.items()):
            stored = self._store.sessions.from_source(tail.ref.agent, tail.ref.id).get(tail.ref.id)
            if stored is None or not was_read_from(self._store, stored, tail.ref) or not tail.settled(stored):
                del self._tails[path]
        self._schedule.finish(time.monotonic() - started)


def _has_agent_folder(location: Path) -> bool:
    """Whether a location is an agent's folder, or contains one."""
    return location.is_dir() and any(
        (location / agent.info.folder).is_dir() or location.name == agent.info.folder or agent.has_layout(location)
        for agent in AGENTS.values()
    )


def _is_relevant(path: Path, agent: str, root: Path) -> bool:
    return any(path.is_relative_to(root / relative) for relative in AGENTS[agent].info.paths)


def _has_only_grown(agent: str, path: Path, row: FileRow) -> bool:
    """Whether a log begins with its archived bytes, judging by the first and last of them. Raises OSError."""
    seen = stat_log(agent, path)
    if seen is None or seen.size < row.archived_size:
        return False
    with seen.source.open() as file:
        return mark_of(file, row.archived_size) == row.mark
