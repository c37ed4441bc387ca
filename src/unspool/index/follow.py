"""Following the agents while they work: every change reaches the store within moments, and nothing is done meanwhile.

A line that is appended to a session is taken in at once. A little later, when the session is quiet, it is read as a
whole, and so is everything else that changed.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from watchfiles import watch

from ..agents import AGENTS, Home
from ..errors import UnspoolError
from ..library import Library
from ..logs import name_of
from ..store.base import Store
from ..store.rows import JournalEntry
from .live import LiveSession
from .scan import look, mark_of
from .sync import Sync

_MOST_LIVE = 32
_QUIET_SECONDS = 1.0
_REST = 20
"""A session is read as a whole no more often than this many times what that takes."""


class Follower:
    """Keeps a store up to date. It belongs to one thread."""

    def __init__(self, store: Store, *places: str | Path, polling: bool | None = None) -> None:
        """`polling` looks at the files again and again, for drives that tell of no changes."""
        self._store = store
        self._sync = Sync(store, *places)
        self._homes: dict[Path, tuple[str, Home | None]] = {
            root: (agent, None) for agent, root in Library(*places).homes()
        }
        self._polling = polling
        self._live: OrderedDict[Path, LiveSession] = OrderedDict()
        self._due: float | None = None
        self._rest = 0.0

    def follow(self, stop: threading.Event | None = None) -> Iterator[list[JournalEntry]]:
        """Give what has changed, as often as something has, until somebody says stop."""
        seen = self._store.last_entry()
        self._sync.run()
        roots = [root for root in self._homes if root.is_dir()]
        if not roots:
            raise UnspoolError("there is no agent's folder to watch yet; start an agent once")
        changes = watch(
            *roots, stop_event=stop, debounce=40, step=10, rust_timeout=250, yield_on_timeout=True,
            force_polling=self._polling, recursive=True, raise_interrupt=False, watch_filter=None,
        )  # fmt: skip
        for found in changes:
            self.take_in({Path(path) for _, path in found})
            while entries := self._store.journal(seen):
                seen = entries[-1].seq
                yield entries

    def take_in(self, paths: set[Path]) -> None:
        """Take in changes of some files; with none, do what is due."""
        for path in paths:
            if self._matters(path) and not self._append(path):
                self._due = self._due or time.monotonic()
        if self._due is not None and time.monotonic() >= self._due:
            self._settle()

    def _matters(self, path: Path) -> bool:
        home = self._home_of(path)
        return home is not None and AGENTS[home[0]].is_log(path)

    def _home_of(self, path: Path) -> tuple[str, Path] | None:
        return next(((agent, root) for root, (agent, _) in self._homes.items() if path.is_relative_to(root)), None)

    # --- at once ---

    def _append(self, path: Path) -> bool:
        """Take in what was appended to a session; False when that is not what happened."""
        live = self._live.get(path) or self._begin(path)
        if live is None:
            return False
        try:
            with self._store.alone(), self._store.transaction():
                live.take_in()
        except (OSError, StopIteration):
            self._live.pop(path, None)
            return False
        self._live.move_to_end(path)
        self._due = max(self._due or 0.0, time.monotonic() + max(_QUIET_SECONDS, self._rest))
        return True

    def _begin(self, path: Path) -> LiveSession | None:
        place = self._home_of(path)
        row = self._store.file_at(name_of(path))
        if place is None or row is None or row.gone_at is not None:
            return None
        agent, root = place
        seen = look(agent, path)
        if seen is None or seen.size < row.kept or mark_of(path, row.kept) != row.mark:
            return None
        home = self._home(agent, root)
        ref = home.ref(path)
        stored = self._store.stored(agent, ref.id) if ref is not None else {}
        if ref is None or ref.id not in stored or len(stored) > 1 or not LiveSession.can_follow(ref):
            return None
        live = LiveSession(self._store, home, ref, stored[ref.id])
        if live.path != path:
            return None
        self._live[path] = live
        while len(self._live) > _MOST_LIVE:
            self._live.popitem(last=False)
        return live

    def _home(self, agent: str, root: Path) -> Home:
        home = self._homes[root][1]
        if home is None:
            home = AGENTS[agent].open(root)
            self._homes[root] = agent, home
        return home

    # --- a little later ---

    def _settle(self) -> None:
        """Read what has changed as a whole."""
        began = time.monotonic()
        self._due = None
        self._sync.run()
        # What was looked up around the sessions may be different now.
        self._homes = {root: (agent, None) for root, (agent, _) in self._homes.items()}
        for path, live in list(self._live.items()):
            stored = self._store.stored(live.ref.agent, live.ref.id).get(live.ref.id)
            if stored is None or not live.settled(stored):
                del self._live[path]
        self._rest = (time.monotonic() - began) * _REST
