"""Following the agents while they work: every change reaches the store within moments, and nothing is done meanwhile.

A line that is appended to a session, and a session that begins, are taken in at once. A little later, when the session
is quiet, it is read as a whole, and so is everything else that changed.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from watchfiles import watch

from ..agents import AGENTS, SessionSource
from ..io.files import name_of
from ..library import Library, expanded
from ..store import Store
from ..store.rows import Change
from .scan import look, mark_of
from .sync import Progress, Syncer
from .tail import SessionTail

# That it was interrupted is no news to who did it.
logging.getLogger("watchfiles").setLevel(logging.ERROR)

_MOST_LIVE = 32
_QUIET_SECONDS = 1.0
_RESTLESS_SECONDS = 5.0
"""A session that is never quiet is read as a whole after this time."""
_TOGETHER_SECONDS = 0.2
"""What changes beside the sessions changes with them: it waits so long."""
_REST = 20
"""Everything is looked at no more often than this many times what that takes."""
_LOOK_SECONDS = 2.0
"""How often it is looked whether another agent's folder has appeared."""
_NET_SECONDS = 20.0
_NET_REST = 300
"""Now and then everything is looked at though nothing was told: not every system tells everything."""


class Watcher:
    """Keeps a store up to date. It belongs to one thread."""

    def __init__(self, store: Store, *places: str | Path, polling: bool | None = None) -> None:
        """`polling` looks at the files again and again, for drives that tell of no changes."""
        self._store = store
        self._places = places
        self._polling = polling
        self._live: OrderedDict[Path, SessionTail] = OrderedDict()
        self._due: float | None = None
        self._restless: float | None = None
        self._rested = 0.0
        self._net = 0.0
        self._homes: dict[Path, tuple[str, SessionSource | None]] = {}
        self._find_homes()
        self.failures: dict[str, str] = {}
        """What could not be read when everything was last looked at, and why."""

    def read_all(
        self, tell: Callable[[Progress], None] | None = None, committed: Callable[[], None] | None = None
    ) -> None:
        """Take in all that is there before following; other processes may help with a lot of work."""
        if self._homes:
            sync = Syncer(self._store, *self._present(), may_share=True)
            self.failures = sync.run(tell, committed).failures

    def follow(self, stop: threading.Event | None = None) -> Iterator[list[Change]]:
        """Give what has changed, as often as something has, until somebody says stop.

        Nothing is given when something could not be read: `failures` tells what.
        """
        seen, failed = self._store.changes.last_seq(), self.failures
        while stop is None or not stop.is_set():
            if not self._homes:
                _wait(stop)
                self._find_homes()
                continue
            marks, looked = self._marks, time.monotonic()
            self._due = looked
            for found in self._changes(stop):
                for _ in self._steps({Path(path) for path in found}):
                    while entries := self._store.changes.since(seen):
                        seen = entries[-1].seq
                        yield entries
                    if self.failures != failed:
                        failed = self.failures
                        yield []
                    if stop is not None and stop.is_set():
                        return
                if time.monotonic() - looked > _LOOK_SECONDS:
                    looked = time.monotonic()
                    self._find_homes()
                    if self._marks != marks:
                        break
            else:
                return

    def _changes(self, stop: threading.Event | None) -> Iterator[Iterable[str]]:
        """Paths of files that changed, or nothing after a while."""
        for changes in watch(
            *self._homes, stop_event=stop, debounce=50, step=20, rust_timeout=250, yield_on_timeout=True,
            force_polling=self._polling, recursive=True, raise_interrupt=False, watch_filter=None,
            ignore_permission_denied=True,
        ):  # fmt: skip
            yield [path for _, path in changes]

    def take_in(self, paths: set[Path]) -> None:
        """Take in changes of some files; with none, do what is due."""
        for _ in self._steps(paths):
            pass

    def _steps(self, paths: set[Path]) -> Iterator[None]:
        """The same, file by file."""
        for path in sorted(paths):
            self._take(path)
            yield
        if time.monotonic() > self._net:
            self._want(0.0)
        if self._due is not None and time.monotonic() >= self._due:
            self._settle()
            yield

    # --- homes ---

    def _find_homes(self) -> None:
        """The agents' folders that are there."""
        places = self._present()
        library = Library(*places) if places or not self._places else Library.of_nothing()
        found = [(agent, root) for agent, root in library.homes() if root.is_dir()]
        self._sync = Syncer(self._store, *places)
        self._homes = {root: self._homes.get(root, (agent, None)) for agent, root in found}
        # A folder that was made anew has to be watched anew.
        self._marks = {root: root.stat().st_ino for root in self._homes}

    def _present(self) -> list[str | Path]:
        """The places at which an agent's folder is."""
        return [place for place in self._places if _has_home(expanded(place))]

    def _home_of(self, path: Path) -> tuple[str, Path] | None:
        """The folder in which a file matters."""
        for root, (agent, _) in self._homes.items():
            if path.is_relative_to(root):
                inner = path.relative_to(root)
                if any(inner.is_relative_to(place) for place in AGENTS[agent].info.paths):
                    return agent, root
        return None

    def _home(self, agent: str, root: Path) -> SessionSource:
        home = self._homes[root][1]
        if home is None:
            home = AGENTS[agent].open(root)
            self._homes[root] = agent, home
        return home

    # --- at once ---

    def _take(self, path: Path) -> None:
        place = self._home_of(path)
        if place is None:
            return
        if path.is_dir():
            # What came into a folder before it was watched was not told.
            for folder, _, names in os.walk(path):
                for name in names:
                    self._take(Path(folder, name))
        elif AGENTS[place[0]].is_log(path):
            if not self._append(path) and not self._begin_at_once(*place, path):
                self._want(_TOGETHER_SECONDS)
        elif not path.exists():
            self._want(_TOGETHER_SECONDS)

    def _append(self, path: Path) -> bool:
        """Take in what was appended to a session; False when that is not what happened."""
        live = self._live.get(path) or self._begin(path)
        if live is None:
            return False
        try:
            with self._store.exclusive(), self._store.transaction():
                came = live.take_in()
        except (OSError, StopIteration):
            self._live.pop(path, None)
            return False
        self._live.move_to_end(path)
        # Some lines only tell what they are when nothing follows them.
        self._want(_QUIET_SECONDS if came else _TOGETHER_SECONDS)
        return True

    def _begin(self, path: Path) -> SessionTail | None:
        place = self._home_of(path)
        row = self._store.files.at(name_of(path))
        if place is None or row is None or row.gone_at is not None:
            return None
        agent, root = place
        seen = look(agent, path)
        if seen is None or seen.size < row.kept or mark_of(seen.source, row.kept) != row.mark:
            return None
        home = self._home(agent, root)
        ref = home.ref(path)
        stored = self._store.sessions.from_source(agent, ref.id) if ref is not None else {}
        if ref is None or ref.id not in stored or len(stored) > 1 or not SessionTail.can_follow(ref):
            return None
        live = SessionTail(self._store, home, ref, stored[ref.id])
        if live.path != path:
            return None
        self._live[path] = live
        while len(self._live) > _MOST_LIVE:
            self._live.popitem(last=False)
        return live

    def _begin_at_once(self, agent: str, root: Path, path: Path) -> bool:
        """Take in a session that is new, or was written anew; False when the whole folder has to be looked at."""
        if not path.exists():
            return False
        self._live.pop(path, None)
        home = AGENTS[agent].open(root)
        report = self._sync.take_in(agent, home, path)
        if report is None or report.failures:
            return False
        self._homes[root] = agent, home
        # Others may be different because of it: the one that started it, or the one it was copied from.
        self._want(_QUIET_SECONDS)
        return True

    # --- a little later ---

    def _want(self, seconds: float) -> None:
        """Look at everything after a while; later when more comes, but not for ever."""
        now = time.monotonic()
        if self._restless is None:
            self._restless = now + _RESTLESS_SECONDS
        due = now + seconds
        if seconds < _QUIET_SECONDS and self._due is not None:
            due = min(due, self._due)
        self._due = max(min(due, self._restless), self._rested)

    def _settle(self) -> None:
        """Read what has changed as a whole."""
        began = time.monotonic()
        self._due = self._restless = None
        report = self._sync.run(open_too=began > self._net)
        self.failures = report.failures
        # What was looked up around the sessions may be different now.
        self._homes = {root: (agent, None) for root, (agent, _) in self._homes.items()}
        for path, live in list(self._live.items()):
            stored = self._store.sessions.from_source(live.ref.agent, live.ref.id).get(live.ref.id)
            if stored is None or not live.settled(stored):
                del self._live[path]
        took = time.monotonic() - began
        self._rested = time.monotonic() + took * _REST
        self._net = time.monotonic() + max(_NET_SECONDS, took * _NET_REST)


def _has_home(place: Path) -> bool:
    """Whether an agent's folder is at a place, or in it."""
    return place.is_dir() and any(
        (place / agent.info.folder).is_dir() or place.name == agent.info.folder or agent.has_layout(place)
        for agent in AGENTS.values()
    )


def _wait(stop: threading.Event | None) -> None:
    if stop is None:
        time.sleep(_LOOK_SECONDS)
    else:
        stop.wait(_LOOK_SECONDS)
