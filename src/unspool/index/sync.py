"""Bringing a store up to date with what the agents have on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from .. import model as m
from ..agents import AGENTS, Home, SessionRef, finish
from ..draft import Draft
from ..errors import UnspoolError
from ..library import Library
from ..logs import name_of
from ..record import Session
from ..store.base import Store
from ..store.rows import FileRow, StoredSession
from .archive import keep
from .pipeline import Pipeline
from .scan import Changed, compare, walk
from .writer import SessionWriter, Target

_HELD = 16 << 20
"""Bytes of one session that wait until it is read to its end."""


class Progress(NamedTuple):
    """How far it is."""

    done: int
    total: int
    bytes_done: int
    bytes_total: int
    name: str


class Report(msgspec.Struct):
    """What a run did."""

    files: int = 0
    new: int = 0
    changed: int = 0
    gone: int = 0
    bytes: int = 0
    failures: dict[str, str] = {}
    """Sessions that could not be read, and why."""
    seconds: float = 0.0


class Sync:
    """Brings a store up to date: only what has changed is read, and each session is written at once or not at all."""

    def __init__(self, store: Store, *places: str | Path) -> None:
        """`places` as for a `Library`: homes, agents' folders; without any, the user's own."""
        self._store = store
        self._places = places

    def run(self, tell: Callable[[Progress], None] | None = None) -> Report:
        """Look at everything once."""
        began = time.perf_counter()
        report = Report()
        with self._store.alone():
            self._run(report, tell)
        report.seconds = time.perf_counter() - began
        return report

    def _run(self, report: Report, tell: Callable[[Progress], None] | None) -> None:
        known = self._store.files()
        for agent, root in Library(*self._places).homes():
            inside = {path: row for path, row in known.items() if _is_inside(path, root)}
            changes, missing = compare(walk(agent, root), inside)
            report.files += len(inside)
            if changes or missing or self._store.has_unsettled(agent):
                _HomeSync(self._store, agent, root, report, tell).run(changes, missing)


class _HomeSync:
    """One agent's folder in which something has changed."""

    def __init__(
        self, store: Store, agent: str, root: Path, report: Report, tell: Callable[[Progress], None] | None
    ) -> None:
        self._store = store
        self._agent = agent
        self._report = report
        self._tell = tell
        self._home: Home = AGENTS[agent].open(root)

    def run(self, changes: list[Changed], missing: list[FileRow]) -> None:
        """Take in the changes."""
        refs = list(self._home.refs())
        by_path = {path: ref for ref in refs for path in (ref.path, *ref.more)}
        changed = {change.seen.path: change for change in changes}
        work = self._stale(refs, {by_path[path].id for path in changed if path in by_path})
        # The oldest first, so that what is newer has the higher numbers.
        work.sort(key=lambda stale: _newest(stale.ref, changed))
        pipeline = Pipeline(self._store)
        try:
            self._read(work, changed, pipeline)
            others = [change for path, change in changed.items() if path not in by_path]
            pipeline.do(lambda: self._keep_others(others))
            pipeline.do(lambda: self._note_missing(missing))
        except BaseException as error:
            pipeline.cancel(error)
            raise
        pipeline.commit()

    def _stale(self, refs: list[SessionRef], changed: set[str]) -> list[_Stale]:
        """Sessions to be read: those whose files changed, and those around which something did."""
        before = self._store.around(self._agent)
        found = []
        for ref in refs:
            around = self._home.around(ref)
            if ref.id in changed or before.get(ref.id) != around:
                found.append(_Stale(ref, around, ref.id in before))
        return found

    def _read(self, work: list[_Stale], changed: dict[Path, Changed], pipeline: Pipeline) -> None:
        sizes = [sum(changed[path].seen.size for path in _paths(stale.ref) if path in changed) for stale in work]
        total, done = sum(sizes), 0
        for number, (stale, size) in enumerate(zip(work, sizes, strict=True)):
            if self._tell is not None:
                self._tell(Progress(number, len(work), done, total, stale.ref.id))
            try:
                self._take_in(stale, changed, pipeline)
            except OSError as error:
                self._report.failures[stale.ref.id] = str(error)
            pipeline.end()
            done += size
            self._report.bytes += size

    def _take_in(self, stale: _Stale, changed: dict[Path, Changed], pipeline: Pipeline) -> None:
        """Read one session and have all of it written."""
        store, ref = self._store, stale.ref
        changes = [changed[path] for path in _paths(ref) if path in changed]
        grew = all(change.how in ("grown", "moved") for change in changes)
        stored = store.stored(self._agent, ref.id) if stale.is_known else {}
        # What is read waits, so that nothing is written of a session that cannot be read to its end.
        work: list[tuple[Callable[[], None], int]] = []
        line = _Line(pipeline, work)
        files: list[int] = []
        line.add(
            lambda: files.extend(self._kept(_paths(ref), changed)), sum(change.seen.size for change in changes) // 8
        )
        writers: dict[str, SessionWriter] = {}

        def make(id: str, kind: m.Kind) -> Draft:
            writers[id] = writer = self._writer(ref, id, stored.get(id), grew, line)
            return writer.draft(self._agent, id, kind)

        drafts = finish(self._home.read(ref, make))
        for draft in drafts:
            head = writers[draft.id].finish(stale.around, lambda: files)
            self._tell_of(writers[draft.id], draft, head, stored.pop(draft.id, None), line)
        for left in stored.values():
            line.add(lambda left=left: store.forget(left.id), 0)  # type: ignore[misc]
        line.go()

    def _writer(self, ref: SessionRef, id: str, before: StoredSession | None, grew: bool, line: _Line) -> SessionWriter:
        store, target = self._store, Target()
        writer = SessionWriter(store, target, AGENTS[self._agent].touched, line.add)
        if before is not None:
            target.id = before.id
            if grew:
                writer.go_on_from(before)
            else:
                line.add(lambda: store.empty_session(before.id), 0)
            return writer

        def make_room() -> None:
            target.id = store.new_session(self._agent, id, ref.id)

        line.add(make_room, 0)
        return writer

    def _tell_of(
        self, writer: SessionWriter, draft: Draft, head: Session, before: StoredSession | None, line: _Line
    ) -> None:
        first = before.messages if before is not None else 0
        facts = {
            "agent": self._agent, "name": draft.id, "new": before is None, "first": first, "messages": len(draft),
            "status": head.info.status,
        }  # fmt: skip
        line.add(lambda: self._store.note("session", writer.id, **facts), 0)
        self._report.new += before is None
        self._report.changed += before is not None

    def _kept(self, paths: list[Path], changed: dict[Path, Changed]) -> Iterator[int]:
        """Bring the bytes of a session's files into the archive; the numbers of the files."""
        for path in paths:
            row = keep(self._store, changed[path]) if path in changed else self._store.file_at(name_of(path))
            if row is not None:
                yield row.id

    def _keep_others(self, changes: list[Changed]) -> None:
        """Files that are no session: they are kept as well, because sessions are read with them."""
        for change in changes:
            try:
                keep(self._store, change)
            except UnspoolError as error:
                self._report.failures[str(change.seen.path)] = str(error)

    def _note_missing(self, missing: list[FileRow]) -> None:
        if not missing:
            return
        now = time.time()
        for row in missing:
            self._store.put_file(row._replace(gone_at=now))
        for session in self._store.without_files():
            self._store.set_gone(session, now)
            self._store.note("gone", session)
            self._report.gone += 1


class _Stale(NamedTuple):
    """A session that has to be read."""

    ref: SessionRef
    around: str
    is_known: bool


class _Line:
    """Work of one session: held back while it is small, so that a session that fails leaves nothing behind."""

    def __init__(self, pipeline: Pipeline, held: list[tuple[Callable[[], None], int]]) -> None:
        self._pipeline = pipeline
        self._held: list[tuple[Callable[[], None], int]] | None = held
        self._weight = 0

    def add(self, work: Callable[[], None], weight: int) -> None:
        """Take work in order."""
        if self._held is None:
            self._pipeline.do(work, weight)
            return
        self._held.append((work, weight))
        self._weight += weight
        if self._weight > _HELD:
            self._pipeline.begin_alone()
            self.go()

    def go(self) -> None:
        """Nothing can go wrong any more, or it is too much to wait."""
        held, self._held = self._held or [], None
        for work, weight in held:
            self._pipeline.do(work, weight)


def _paths(ref: SessionRef) -> list[Path]:
    return [ref.path, *ref.more]


def _newest(ref: SessionRef, changed: dict[Path, Changed]) -> int:
    return max((changed[path].seen.changed for path in _paths(ref) if path in changed), default=0)


def _is_inside(path: str, root: Path) -> bool:
    folder = name_of(root)
    return path.startswith(folder) and path[len(folder) : len(folder) + 1] in ("/", "\\")
