"""A session that is being written: each line it gets is taken in at once, however long it is already.

The reading waits at the end of the file with everything it knows. What only the whole tells (branches, contexts, calls
that never finished) is found by a reading of its own, when the session has been quiet for a while.
"""

from __future__ import annotations

from pathlib import Path

from ..agents import AGENTS, SessionRef, SessionSource, Steps
from ..core import model as m
from ..core.builder import SessionBuilder
from ..io.files import Patience, name_of
from ..store import Store
from ..store.rows import StoredSession
from .archive import keep
from .change_diff import appended, superseded
from .scan import Changed, look
from .writer import Messages, SessionWriter


class SessionTail:
    """One growing session. It serves sessions in a single log to which lines are appended."""

    def __init__(self, store: Store, home: SessionSource, ref: SessionRef, stored: StoredSession) -> None:
        self.ref = ref
        self.path: Path = ref.more[-1] if ref.more else ref.path
        self._store = store
        self._patience = Patience(self.path)
        self._written = stored.messages
        self._id = stored.id
        self._waiting: list[Messages] = []
        """What has become settled while reading."""
        self._writer = SessionWriter(AGENTS[ref.agent].touched, self._waiting.append)
        self._writer.go_on_from(store, stored)
        self._recorder = self._writer.draft(ref.agent, stored.name, ref.kind)
        self._steps: Steps = home.read(ref, self._draft)
        self._read()

    def _draft(self, id: str, _: m.Kind) -> SessionBuilder | None:
        return self._recorder if id == self._recorder.id else None

    @staticmethod
    def can_follow(ref: SessionRef) -> bool:
        """Whether a session is written by appending lines."""
        path = ref.more[-1] if ref.more else ref.path
        return path.suffix == ".jsonl"

    def take_in(self) -> int:
        """Take in what has come, inside a transaction; returns how many messages are new."""
        before = self._written
        self._read()
        if len(self._recorder) == before and not self._writer.has_news:
            return 0
        self._written = self._writer.write_so_far(self._store, self._id, self._waiting)
        self._keep()
        for kind, data in (*superseded(self._writer.changed()), *appended(before, self._written)):
            self._store.changes.append(kind, self._id, **data)
        return self._written - before

    def settled(self, stored: StoredSession) -> bool:
        """Another reading has found the rest: go on from what it wrote. False when it is not what was read here."""
        if (stored.messages, stored.sealed) != (len(self._recorder), self._recorder.sealed):
            return False
        self._writer.go_on_from(self._store, stored)
        return True

    def _keep(self) -> None:
        row, seen = self._store.files.at(name_of(self.path)), look(self.ref.agent, self.path)
        if row is not None and seen is not None:
            keep(self._store, Changed(seen, "grown", row))

    def _read(self) -> None:
        self._patience.caught_up = False
        with self._patience.active():
            while not self._patience.caught_up:
                next(self._steps)
