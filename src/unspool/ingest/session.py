"""Writes one session to the store. No other module writes the messages of sessions read from logs.

A session is in one of three modes: `new` if the store does not have it, `append` if its log grew since it was stored,
and `rewrite` if its log, or something else that affects it, changed in another way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ..agents import AGENTS
from ..core import model as m
from ..core.builder import SessionBuilder
from ..store import Store
from ..store.file_copies import copies_of_session
from ..store.rows import SessionRow, StoredSession
from .archive import ArchivedOriginals
from .change_diff import StoredState, appended, created, differences, stored_state, superseded
from .scan import without_decisions
from .transactions import Pipeline
from .writer import Ending, Messages, SessionWriter

Mode = Literal["new", "append", "rewrite"]

_MOST_HELD = 4 << 20
"""Maximum bytes of one file's sessions that are held back until it is read completely."""


class SessionIngest:
    """Writes one session: call `begin`, then `write` for each piece, then `finish`."""

    def __init__(
        self, store: Store, agent: str, name: str, ref: str, stored: StoredSession | None = None, grew: bool = False
    ) -> None:
        """`stored` is the session as the store has it; `grew` means that its log was only appended to since."""
        self.mode: Mode = "new" if stored is None else "append" if grew else "rewrite"
        self._store = store
        self._agent = agent
        self.name = name
        self._ref = ref
        self._stored = stored
        self._id = stored.id if stored is not None else 0
        self._before: StoredState | None = None

    def writer(self, give: Callable[[Messages], None]) -> SessionWriter:
        """Return the writer that prepares messages for the store; it passes the pieces to `give`."""
        writer = SessionWriter(AGENTS[self._agent].touched, give)
        if self._stored is not None and self.mode == "append":
            writer.continue_from(self._store, self._stored)
        elif self._stored is not None:
            writer.compare_with(self._store, self._id)
        return writer

    def builder(self, writer: SessionWriter, kind: m.Kind) -> SessionBuilder:
        """Return the builder for the reader."""
        builder = writer.builder(self._agent, self.name, kind)
        builder.originals = ArchivedOriginals(self._store, self._agent, self._stored)
        return builder

    def begin(self) -> None:
        """Create the session, or remove the data that will be replaced."""
        store, stored = self._store, self._stored
        # A new session may be in the store as well, read from another folder.
        self._before = stored_state(store, self._agent, self.name)
        if stored is None:
            self._id = store.sessions.create(self._agent, self.name, self._ref)
        elif self.mode == "append":
            store.sessions.remove_tail(self._id, stored.sealed)
        else:
            store.sessions.clear(self._id)

    def write(self, piece: Messages) -> None:
        """Write some messages."""
        piece.write(self._store, self._id)

    def write_so_far(self, writer: SessionWriter, waiting: list[Messages], before: int) -> int:
        """Write the messages read so far of a session that is still growing, without `begin` and `finish`.

        `waiting` are the pieces that the writer passed on, and `before` is the number of messages that were stored.
        Returns the number of messages that are stored now.
        """
        count = writer.write_so_far(self._store, self._id, waiting)
        for kind, data in (*superseded(writer.changed()), *appended(before, count)):
            self._store.changes.append(kind, self._id, **data)
        return count

    def finish(self, ending: Ending, fingerprint: str, files: list[int]) -> None:
        """Write the data that is only known at the end, and append the differences to the change log."""
        kept = self._stored.sealed if self._stored is not None and self.mode == "append" else 0
        self._store.usage.add_to_sums(self._id, kept)
        if ending.is_without_decisions:
            fingerprint = without_decisions(fingerprint)
        ending.write(self._store, self._id, fingerprint, files)
        if self._before is None:
            changes = iter([created(self._agent, self.name, ending.messages)])
        else:
            changes = differences(self._before, ending.stored_state, ending.compared)
        for kind, data in changes:
            self._store.changes.append(kind, self._id, **data)


def remove_session(store: Store, agent: str, id: int, name: str) -> None:
    """Remove a session, because its file turned out to contain no session, or on request."""
    store.sessions.delete(id)
    store.changes.append("session.forgotten", id, agent=agent, name=name)


def forget_session(store: Store, row: SessionRow, *, until_seen_again: bool = False) -> None:
    """Remove a session and all copies of its files on request, and exclude it from further imports."""
    files, copies = store.files.only_of_session(row.id), copies_of_session(store.database, store.files, row.id)
    if not until_seen_again:
        store.forgotten.add(row.id, store.files.paths_of([*files, *copies]))
    remove_session(store, row.agent, row.id, row.name)
    for file in copies:
        store.files.remove(file)


class WriteQueue:
    """Holds back the writes of one file's sessions while they are small, so that an unreadable file changes nothing."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._held: list[tuple[Callable[[], None], int]] | None = []
        self._weight = 0

    def add(self, work: Callable[[], None], weight: int = 0) -> None:
        """Add a write; `weight` is its approximate size in bytes."""
        if self._held is None:
            self._pipeline.write(work, weight)
            return
        self._held.append((work, weight))
        self._weight += weight
        if self._weight > _MOST_HELD:
            self._pipeline.begin_large()
            self.flush()

    @property
    def has_written(self) -> bool:
        """Whether some writes have been done."""
        return self._held is None

    def cancel(self, error: BaseException) -> None:
        """Drop all writes; those of a large session, which has its own transaction, are rolled back."""
        if self._held is None:
            self._pipeline.cancel(error)
        self._held = []
        self._weight = 0

    def flush(self) -> None:
        """Do all writes, and do later ones immediately."""
        held, self._held = self._held or [], None
        for work, weight in held:
            self._pipeline.write(work, weight)
