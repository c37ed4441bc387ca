"""Sessions that were deleted from disk, read from the store instead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...agents import Peek, SessionRef
from ...core.assemble import TipRule
from ...core.errors import NotFoundError, UsageError
from ...core.session import Session
from ...core.stream import StreamLine, iter_stream
from ...core.views import Branches, OrphanMode, View
from ...store import Store, open_store
from ...store.rows import SessionRow
from .store import name_damage


def find_stored(name: str) -> tuple[StoredSessions, SessionRef] | None:
    """A session by its id in the user's own store; None when it is not there."""
    try:
        store = open_store(read_only=True)
        row = store.sessions.find(name)
    except NotFoundError:
        return None
    return StoredSessions(store, row), _ref(store, row)


def _ref(store: Store, row: SessionRow) -> SessionRef:
    paths = [Path(file.path) for file in store.files.of_session(row.id)] or [Path(row.name)]
    return SessionRef(
        agent=row.agent, id=row.name, kind=row.kind, root=paths[0].parent, path=paths[0], more=tuple(paths[1:]),
        parent=row.parent,
    )  # fmt: skip


class StoredSessions:
    """Reads one session from a store, with the methods of a `Library`."""

    def __init__(self, store: Store, row: SessionRow) -> None:
        self._store = store
        self._row = row

    def load_all(
        self, ref: SessionRef, tip: TipRule = "agent", branches: Branches = "all", orphans: OrphanMode = "mark"
    ) -> Iterator[Session]:
        """The session."""
        if tip != "agent":
            raise UsageError(f"{ref.id} exists only in the archive; run `unspool restore` first to use --tip")
        session = self._store.messages.load_session(self._row.id)
        name_damage(self._store)
        if branches == "all" and orphans == "mark":
            yield session
            return
        dead = [message.index for message in session.messages if message.branch]
        yield View(session, dead, branches, orphans).whole()

    def inside(self, ref: SessionRef) -> list[SessionRef]:  # noqa: ARG002 - part of the protocol
        """None: in a store, each sub-agent is a session of its own."""
        return []

    def load(self, ref: SessionRef, tip: TipRule = "agent") -> Session:
        """The session."""
        return next(self.load_all(ref, tip))

    def stream(
        self, ref: SessionRef, tip: TipRule = "agent", branches: Branches = "all", orphans: OrphanMode = "mark"
    ) -> Iterator[StreamLine]:
        """The session in small pieces."""
        for session in self.load_all(ref, tip, branches, orphans):
            yield from iter_stream(session)

    def peek(self, _: SessionRef) -> Peek:
        """What a list shows."""
        info = self._store.messages.load_head(self._row.id).info
        return Peek(
            title=info.title, project=info.project, started_at=info.started_at, ended_at=info.ended_at,
            version=info.versions[-1] if info.versions else None, size=sum(file.size for file in info.files),
        )  # fmt: skip
