"""Lists, finds and reads sessions on disk, together with those that only a store has or that cannot be read now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from .agents import Peek, SessionRef
from .core.assemble import TipRule
from .core.errors import NotFoundError, UsageError
from .core.resolve import LATEST, looks_like_path, no_sessions, resolve_name
from .core.session import Session
from .core.stream import StreamLine, iter_stream
from .core.views import Branches, OrphanMode, View
from .io.faults import collect_faults
from .io.listing import may_exist
from .library import Library, last_written

if TYPE_CHECKING:
    from .core.annotations import Annotation
    from .store import Store
    from .store.rows import SessionRow

StoreOpener = Callable[[], "Store | None"]
"""Opens the store; returns None if there is none."""


class Catalog:
    """Sessions on disk and in a store. Those on disk are read from disk, because their files may be newer."""

    def __init__(
        self, library: Library, open_store: StoreOpener | None = None, *, below: list[Path] | None = None
    ) -> None:
        """`open_store` is called when the store is first needed, which is never the case for a path on disk.

        With `below`, stored sessions are only included if their files were in one of these folders.
        """
        self.library = library
        self._open_store = open_store
        self._below = below
        self._rows: dict[tuple[str, str], SessionRow] = {}
        """The stored sessions that were returned as references."""
        self._unreadable: set[Path] = set()
        """Folders and files that could not be read when the sessions on disk were listed."""

    @cached_property
    def store(self) -> Store | None:
        """The store, if there is one."""
        return self._open_store() if self._open_store is not None else None

    @property
    def opened_store(self) -> Store | None:
        """The store, if it has been opened."""
        return self.__dict__.get("store")

    # --- listing ---

    def refs(self) -> Iterator[SessionRef]:
        """All sessions: those on disk, then those that only the store still has, or that cannot be read now."""
        on_disk = set()
        for ref in self._on_disk():
            on_disk.add((ref.agent, ref.id))
            yield ref
        yield from self._not_listed(on_disk)

    def _on_disk(self) -> Iterator[SessionRef]:
        """The sessions on disk. Also finds out which folders and files cannot be read."""
        refs = self.library.refs()
        while True:
            # Errors of the caller, between two sessions, are not collected here.
            with collect_faults() as faults:
                ref = next(refs, None)
            faults.pass_on()
            self._unreadable.update(faults.errors)
            if ref is None:
                return
            yield ref

    def _not_listed(self, on_disk: set[tuple[str, str]]) -> Iterator[SessionRef]:
        """The stored sessions that cannot be read on disk; `on_disk` has the agent and id of each that can."""
        from .store.filters import SessionFilter

        store = self.store
        if store is not None:
            rows = store.sessions.select(SessionFilter(is_empty=False))
            yield from self._stored_among(store, (row for row in rows if (row.agent, row.name) not in on_disk))

    def _stored_among(self, store: Store, rows: Iterator[SessionRow]) -> Iterator[SessionRef]:
        maybe_here = store.sessions.not_marked_gone()
        for row in rows:
            ref = self._ref(store, row, maybe_here)
            # The file may still exist: that of a sub-agent in its parent's log, or one in a folder not listed here.
            if not ref.gone and not self._is_unreadable(ref):
                continue
            if self._below is None or any(folder in ref.path.parents for folder in self._below):
                yield ref

    def _is_unreadable(self, ref: SessionRef) -> bool:
        """Whether a file of a session, or a folder above it, could not be read."""
        paths = (ref.path, *ref.more) if self._unreadable else ()
        return any(not self._unreadable.isdisjoint((path, *path.parents)) for path in paths)

    def _ref(self, store: Store, row: SessionRow, maybe_here: set[int]) -> SessionRef:
        self._rows[row.agent, row.name] = row
        paths = [Path(file.path) for file in store.files.of_session(row.id)] or [Path(row.name)]
        return SessionRef(
            agent=row.agent,
            id=row.name,
            kind=row.kind,
            root=paths[0].parent,
            path=paths[0],
            more=tuple(paths[1:]),
            parent=row.parent,
            gone=row.id not in maybe_here or not any(map(may_exist, paths)),
            stored=True,
        )

    # --- names ---

    def find(self, name: str) -> SessionRef:
        """A session by path, id, unique prefix of an id, or `latest`; see `core.resolve`."""
        if name == LATEST:
            return self._latest()
        try:
            found = self.library.find(name)
        except NotFoundError as error:
            return self._find_stored(name, error)
        if looks_like_path(name) or name == found.id or self.store is None:
            return found
        # The beginning of an id may also match a session whose files are gone.
        from .store.filters import SessionFilter

        similar = self.store.sessions.select(SessionFilter(name_like=name))
        others = (row for row in similar if (row.agent, row.name) != (found.agent, found.id))
        candidates = [found, *self._stored_among(self.store, others)]
        return resolve_name(name, candidates, lambda ref: ref.id, lambda: len(candidates))[0]

    def _find_stored(self, name: str, error: NotFoundError) -> SessionRef:
        if self.store is None:
            raise error
        try:
            row = self.store.sessions.find(name)
        except NotFoundError:
            raise error from None
        return self._ref(self.store, row, self.store.sessions.not_marked_gone((row.id,)))

    def _latest(self) -> SessionRef:
        """The main session that was written to last, whether or not its files still exist."""
        mains = [ref for ref in self.refs() if ref.kind == "main"]
        if not mains:
            raise no_sessions()
        return max(mains, key=self._last_written)

    def _last_written(self, ref: SessionRef) -> float:
        if not ref.stored:
            return last_written(ref) / 1e9
        ended = self._rows[ref.agent, ref.id].ended_at
        return ended.timestamp() if ended is not None else 0.0

    # --- reading ---

    def gone_at(self, ref: SessionRef) -> datetime | None:
        """When the files of a session were found to be gone: by the last sync, or now. None if they may exist."""
        if not ref.gone:
            return None
        _, row = self._stored(ref)
        return row.gone_at or datetime.now(UTC)

    def inline_subagents(self, ref: SessionRef) -> list[SessionRef]:
        """Sub-agents that are recorded in the log of a session. In a store, each is a session of its own."""
        return [] if ref.stored else self.library.inline_subagents(ref)

    def peek(self, ref: SessionRef) -> Peek:
        """Return the details that a list shows about a session."""
        if not ref.stored:
            return self.library.peek(ref)
        store, row = self._stored(ref)
        info = store.messages.load_head(row.id).info
        return Peek.of(info, sum(file.size for file in info.files))

    def load(self, ref: SessionRef, tip: TipRule = "agent") -> Session:
        """Read a whole session."""
        return next(self.load_all(ref, tip))

    def load_all(
        self, ref: SessionRef, tip: TipRule = "agent", branches: Branches = "all", orphans: OrphanMode = "mark"
    ) -> Iterator[Session]:
        """Read a session and the sub-agents that are recorded in the same log."""
        if not ref.stored:
            yield from self.library.load_all(ref, tip, branches, orphans)
            return
        if tip != "agent":
            raise UsageError(
                f"{ref.id} exists only in the archive; run `unspool restore` first to choose another tip"
                if ref.gone
                else f"the files of {ref.id} cannot be read now, so no other tip can be chosen"
            )
        store, row = self._stored(ref)
        session = store.messages.load_session(row.id)
        if branches == "all" and orphans == "mark":
            yield session
            return
        dead = [message.index for message in session.messages if message.branch]
        yield View(session, dead, branches, orphans).whole()

    def stream(
        self, ref: SessionRef, tip: TipRule = "agent", branches: Branches = "all", orphans: OrphanMode = "mark"
    ) -> Iterator[StreamLine]:
        """Read a session in small pieces; from disk in constant memory, however long it is."""
        if not ref.stored:
            yield from self.library.stream(ref, tip, branches, orphans)
            return
        for session in self.load_all(ref, tip, branches, orphans):
            yield from iter_stream(session)

    def annotations(self, agent: str, name: str) -> list[Annotation]:
        """The pins, notes and tags that a person added to a session; none without a store."""
        return self.store.annotations.of(agent, name) if self.store is not None else []

    def _stored(self, ref: SessionRef) -> tuple[Store, SessionRow]:
        """Return the store and the session's row in it, even if another catalog returned the reference."""
        from .store.filters import SessionFilter

        if self.store is None:
            raise NotFoundError(f"{ref.id} exists only in a store, and none was given")
        row = self._rows.get((ref.agent, ref.id))
        if row is None:
            rows = self.store.sessions.select(SessionFilter(agent=ref.agent, name=ref.id), limit=1)
            if not rows:
                raise NotFoundError(f"the store no longer has session {ref.id!r}; `unspool ls` lists the sessions")
            row = self._rows[ref.agent, ref.id] = rows[0]
        return self.store, row
