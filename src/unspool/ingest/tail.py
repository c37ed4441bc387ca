"""Follows a session that is being written: each new line is stored immediately, however long the session is.

The reader keeps its state and waits at the end of the file. What only the whole log shows (branches, contexts,
unfinished calls) is found by reading the session again when it has not changed for a while.
"""

from __future__ import annotations

import time
from pathlib import Path

from ..agents import AGENTS, SessionRef, SessionSource, Steps
from ..core import model as m
from ..core.builder import SessionBuilder
from ..core.errors import UnspoolError
from ..io.files import FollowedFile, name_of
from ..store import Store
from ..store.rows import StoredSession
from .archive import archive_log
from .scan import ChangedLog, stat_log
from .session import SessionIngest
from .writer import Messages


class OutdatedTailError(UnspoolError):
    """Another process has stored the session since it was last written here."""


class SessionTail:
    """Follows one session, in a single log to which lines are appended."""

    def __init__(self, store: Store, home: SessionSource, ref: SessionRef, stored: StoredSession) -> None:
        self.ref = ref
        self.path: Path = ref.more[-1] if ref.more else ref.path
        self._store = store
        self._stored = stored
        """The session as this tail has left it in the store."""
        self._followed = FollowedFile(self.path)
        self._written = stored.messages
        self._waiting: list[Messages] = []
        """Pieces that were read but not written yet."""
        self._ingest = SessionIngest(store, ref.agent, stored.name, ref.id, stored, grew=True)
        self._writer = self._ingest.writer(self._waiting.append)
        self._builder = self._ingest.builder(self._writer, ref.kind)
        self._steps: Steps = home.read(ref, self._make)
        self._read()

    def _make(self, id: str, _: m.Kind) -> SessionBuilder | None:
        return self._builder if id == self._builder.id else None

    @staticmethod
    def can_follow(ref: SessionRef) -> bool:
        """Whether a session is written by appending lines."""
        return AGENTS[ref.agent].log(ref.more[-1] if ref.more else ref.path).is_appendable

    def ingest(self) -> int:
        """Store appended lines, inside a transaction; returns the number of new messages.

        Raises OutdatedTailError if the session in the store has changed in the meantime.
        """
        before = self._written
        self._read()
        if self._writer.count == before and not self._writer.has_news:
            return 0
        if self._now_stored() != self._stored:
            raise OutdatedTailError(f"{self.path} was stored by another process")
        self._written = self._ingest.write_so_far(self._writer, self._waiting, before)
        self._keep()
        self._stored = self._now_stored() or self._stored
        return self._written - before

    def settled(self, stored: StoredSession) -> bool:
        """Continue after the whole session was read and stored; returns False if the counts differ."""
        if (stored.messages, stored.sealed) != (self._writer.count, self._writer.sealed):
            return False
        self._writer.continue_from(self._store, stored)
        self._stored = stored
        return True

    def _now_stored(self) -> StoredSession | None:
        found = self._store.sessions.from_source(self.ref.agent, self.ref.id, (self._stored.id,))
        return found.get(self._stored.name)

    def _keep(self) -> None:
        """Bring the archive of the file up to date."""
        row, seen = self._store.files.at(name_of(self.path)), stat_log(self.ref.agent, self.path)
        if row is not None and seen is not None:
            change = ChangedLog(seen, "grown", row)
            archive_log(self._store, change, time.time(), lambda write, _: write(), is_followed=True)

    def _read(self) -> None:
        self._followed.caught_up = False
        with self._followed.active():
            while not self._followed.caught_up:
                next(self._steps)
