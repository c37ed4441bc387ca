"""Reading a thread of Codex CLI: its files, the beginning it shares with another thread, and its sub-agents."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from operator import attrgetter
from pathlib import Path

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import NONE
from ...io.decode import Batch, Damage
from ...io.documents import take_apart
from ...io.files import log_of, name_of, read_batches, read_whole, size_of
from .._metadata import digest, project_of, title_of, version_of
from ..base import BuilderFactory, Peek, SessionRef, Steps
from .discovery import CodexFolder, Head, RolloutFile, first_prompt, last_time, read_beginning, rollout_file
from .parser import SILENT_EVENTS, SILENT_KINDS, CodexParser
from .schema import BARE_LINES, ITEMS, LINES, Line

_ENVELOPES = frozenset(("response_item", "event_msg"))
_AT_ONCE = timedelta(seconds=5)
_LOOK_AHEAD = 50
"""Lines of the original that a copy may have left out."""


_kind_of = attrgetter("type")
_body_of = attrgetter("payload.type")


class CodexSource:
    """Threads under one `.codex` folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folder = CodexFolder(root)

    @property
    def live(self) -> dict[str, m.Status]:
        """It keeps no list of the sessions that are open."""
        return {}

    # --- finding ---

    def refs(self) -> Iterator[SessionRef]:
        """All threads, each once."""
        for thread, files in self._folder.threads.items():
            yield self._ref(thread, files)

    def _ref(self, thread: str, files: list[RolloutFile]) -> SessionRef:
        head = self._folder.head(files[0].path)
        return SessionRef(
            agent="codex",
            id=thread,
            kind="subagent" if head.subagent is not None else "main",
            root=self.root,
            path=files[0].path,
            more=tuple(file.path for file in files[1:]),
            parent=self._parent(thread, head),
            archived=files[0].archived,
        )

    def _parent(self, thread: str, head: Head) -> str | None:
        """The thread that started a sub-agent. Reviewers before 0.139 name none: the time tells."""
        if head.parent is not None or head.subagent != "review" or head.started_at is None:
            return head.parent
        starts = self._folder.starts
        place = bisect_right(starts, (head.started_at, thread))
        others = (start for start in reversed(starts[max(0, place - 2) : place]) if start[1] != thread)
        before = next(others, None)
        return before[1] if before is not None and head.started_at - before[0] < timedelta(days=30) else None

    def ref(self, path: Path) -> SessionRef | None:
        """The thread of a file."""
        file = rollout_file(path, archived=path.parent.name == "archived_sessions")
        if file is not None and file.thread in self._folder.threads:
            return self._ref(file.thread, self._folder.threads[file.thread])
        head = self._folder.head(path)
        thread = head.id or (file.thread if file is not None else path.stem)
        return self._ref(thread, [file or RolloutFile(path, thread, thread, "", archived=False)])

    def lists(self, ref: SessionRef) -> bool:
        """Whether it is a thread of this folder."""
        return ref.id in self._folder.threads

    def peek(self, ref: SessionRef) -> Peek:
        """The beginning of a thread, and its last time."""
        head = self._folder.head(ref.path)
        title = self._folder.names.get(ref.id)
        if title is None:
            title = title_of(first_prompt(read_beginning(ref.path)))
        return Peek(
            title=title,
            project=project_of(head.cwd),
            started_at=head.started_at,
            ended_at=last_time(ref.more[-1] if ref.more else ref.path),
            version=head.version,
            size=sum(map(size_of, (ref.path, *ref.more))),
        )

    def has_inline_subagents(self, ref: SessionRef) -> bool:  # noqa: ARG002 - others have to look
        """Never: each has a rollout of its own."""
        return False

    def around(self, ref: SessionRef) -> str:
        """Its name, its clears, the threads it started, and what it shares with others."""
        folder = self._folder
        children = folder.children.get(ref.id)
        reviews = [id for id, head in folder.reviews if self._parent(id, head) == ref.id] if folder.reviews else []
        facts = (folder.names.get(ref.id), folder.clears.get(ref.id), children, reviews, ref.parent, ref.archived)
        return digest((*facts, *map(size_of, self._originals(ref))))

    def _originals(self, ref: SessionRef) -> Iterator[Path]:
        """The files whose lines a thread shares."""
        head = self._folder.head(ref.path)
        for file in self._folder.threads.get(head.copied_from or "", ())[:1]:
            yield file.path
        if head.history_base is not None and head.history_base.thread_id in self._folder.rollouts:
            yield self._folder.rollouts[head.history_base.thread_id].path

    # --- reading ---

    def read(self, ref: SessionRef, make: BuilderFactory) -> Steps:
        """Read a thread."""
        draft = make(ref.id, ref.kind) or SessionBuilder("codex", ref.id, ref.kind, keep=False)
        head = self._folder.head(ref.path)
        thread = CodexParser(draft, version_of(head.version) or ((0, 29) if head.bare else ()))
        draft.parent = ref.parent
        draft.archived = ref.archived
        draft.project = project_of(head.cwd)
        draft.git = head.git
        draft.origin = _origin(head, ref)
        if head.version:
            draft.versions[head.version] = None
        reading = _Reading(thread, self._folder, keeps_places=bool(ref.more))
        yield from reading.add_base(head)
        for place, path in enumerate((ref.path, *ref.more)):
            yield from reading.add_own(path, self._folder.head(path), is_revert=place > 0)
        thread.finish()
        draft.title = self._folder.names.get(ref.id) or title_of(thread.first_prompt)
        draft.tip = thread.tip if thread.tip >= 0 else None
        draft.tip_rule = "end of the thread"
        self._add_clears(ref, draft)
        self._add_subagents(ref, thread)
        _close_local_shells(draft)
        return [draft]

    def _add_clears(self, ref: SessionRef, draft: SessionBuilder) -> None:
        for at in self._folder.clears.get(ref.id, ()):
            # The prompt history counts in whole seconds.
            after = draft.last_before(at + timedelta(seconds=1))
            draft.clears.append(
                m.ContextClear(after_message_index=after, timestamp=at, evidence="history", confidence=0.8)
            )

    def _add_subagents(self, ref: SessionRef, thread: CodexParser) -> None:
        draft = thread.draft
        for spawned in thread.spawned.values():
            files = self._folder.threads.get(spawned.thread_id)
            head = self._folder.head(files[0].path) if files else Head()
            draft.subagents.append(
                m.Subagent(
                    message_index=spawned.message,
                    tool_use_id=spawned.call_id,
                    agent_id=spawned.thread_id,
                    session=spawned.thread_id if files else None,
                    status="completed" if spawned.thread_id in thread.finished_agents else "unknown",
                    linked_by=spawned.how,
                    agent_type=head.agent_role,
                )
            )
        taken: set[str] = set()
        for index, at in thread.reviews:
            for id, head in self._folder.reviews:
                named = head.parent == ref.id
                at_once = at is not None and head.started_at is not None and abs(head.started_at - at) < _AT_ONCE
                unnamed = head.parent is None and (at_once or self._parent(id, head) == ref.id)
                if id not in taken and (named or unnamed):
                    taken.add(id)
                    draft.subagents.append(
                        m.Subagent(
                            message_index=index, tool_use_id=None, agent_id=id, session=id, status="completed",
                            linked_by="parent id" if named else "time", agent_type="review",
                        )
                    )  # fmt: skip
                    break


class _Rollout:
    """Where the lines of one file ended up: its ordinals and the messages they became."""

    def __init__(self, base: _Rollout | None, start: int) -> None:
        self._base = base
        self._start = start
        self._ordinals: list[int] = []
        self._places: list[int] = []

    def note(self, ordinal: int, place: int) -> None:
        self._ordinals.append(ordinal)
        self._places.append(place)

    def before(self, ordinal: int) -> int:
        """The last message before an ordinal, in this file or in the one it goes on from."""
        position = bisect_left(self._ordinals, ordinal) - 1
        if position >= 0:
            return self._places[position]
        return self._base.before(min(ordinal, self._start)) if self._base is not None else NONE


class _Reading:
    """The files of a thread, in order, and those it goes on from."""

    def __init__(self, thread: CodexParser, folder: CodexFolder, keeps_places: bool) -> None:
        self._thread = thread
        self._folder = folder
        self._keeps_places = keeps_places
        self._rollouts: dict[str, _Rollout] = {}

    def add_base(self, head: Head) -> Iterator[None]:
        """Read the beginning that a fork shares with another thread (0.148 and later copy nothing)."""
        base = head.history_base
        file = self._folder.rollouts.get(base.thread_id or "") if base is not None else None
        if base is None or file is None or base.end_ordinal_exclusive is None:
            return
        above = self._folder.head(file.path)
        if file.rollout not in self._rollouts:
            yield from self.add_base(above)
            yield from self._read(file.path, above, file.rollout, "base", end=base.end_ordinal_exclusive)

    def add_own(self, path: Path, head: Head, is_revert: bool) -> Iterator[None]:
        """Read a file of the thread; a second one goes on from an earlier point of the first."""
        file = rollout_file(path)
        if is_revert:
            base = head.history_base
            known = self._rollouts.get(base.thread_id or "") if base is not None else None
            target = NONE
            if known is not None and base is not None and base.end_ordinal_exclusive is not None:
                target = known.before(base.end_ordinal_exclusive)
            self._thread.go_back(target, "revert")
        yield from self._read(path, head, file.rollout if file is not None else "", "log")

    def _read(self, path: Path, head: Head, rollout: str, role: m.FileRole, end: int | None = None) -> Iterator[None]:
        draft = self._thread.draft
        place = len(draft.files)
        log = log_of(path, role)
        draft.files.append(log)
        if path.suffix == ".json":
            self._read_document(path, place, log)
            return
        if head.bare:
            yield from self._read_bare(path, place, log)
            return
        base = head.history_base
        above = self._rollouts.get(base.thread_id or "") if base is not None else None
        start = base.end_ordinal_exclusive or 0 if base is not None else 0
        known = self._rollouts[rollout] = _Rollout(above, start)
        copied = self._copied(head) if role == "log" else None
        kinds: Counter[str] = Counter()
        bodies: Counter[str] = Counter()
        for batch in read_batches(path, LINES, log):
            draft.bytes_at = batch.bytes_at
            for damage in batch.damages:
                draft.damage(place, damage)
            kinds.update(map(_kind_of, batch.records))
            bodies.update(map(_body_of, batch.records))
            if role == "log" and copied is None and head.own_from_ordinal is None and not self._keeps_places:
                self._feed_all(batch, place)
            elif not self._feed_some(batch, place, head, copied, end, known):
                break
            yield
        log.records = {kind: count for kind, count in (kinds | bodies).items() if kind and kind not in _ENVELOPES}

    def _feed_all(self, batch: Batch[Line], place: int) -> None:
        """Lines that are all the thread's own."""
        feed, item, event = self._thread.feed, self._thread.item, self._thread.event
        for line, number, offset, length in batch.rows():
            kind = line.type
            if kind == "response_item":
                item(line, line.payload, m.Source(place, number, offset, length), False)
            elif kind == "event_msg":
                if line.payload.type not in SILENT_EVENTS:
                    event(line, line.payload, m.Source(place, number, offset, length), False)
            elif kind not in SILENT_KINDS:
                feed(line, m.Source(place, number, offset, length), False)

    def _feed_some(
        self, batch: Batch[Line], place: int, head: Head, copied: _Copied | None, end: int | None, known: _Rollout
    ) -> bool:
        """Lines of which some are shared with another thread; False when the shared beginning is over."""
        draft = self._thread.draft
        for line, number, offset, length in batch.rows():
            if end is not None and line.ordinal is not None and line.ordinal >= end:
                return False
            inherited = end is not None or _is_inherited(line, head) or (copied is not None and copied.has(line))
            count = len(draft)
            self._thread.feed(line, m.Source(place, number, offset, length), inherited)
            if line.ordinal is not None and len(draft) > count:
                known.note(line.ordinal, count)
        return True

    def _copied(self, head: Head) -> _Copied | None:
        """The original of a fork whose lines were copied (up to 0.147)."""
        origin = head.copied_from if head.subagent is None else None
        files = self._folder.threads.get(origin or "")
        return _Copied(files[0].path) if files else None

    def _read_bare(self, path: Path, place: int, log: m.LogFile) -> Iterator[None]:
        draft = self._thread.draft
        self._thread.is_bare = True
        for batch in read_batches(path, BARE_LINES, log):
            draft.bytes_at = batch.bytes_at
            for damage in batch.damages:
                draft.damage(place, damage)
            for line, number, offset, length in batch.rows():
                kind = self._thread.feed_bare(line, m.Source(place, number, offset, length))
                log.records[kind] = log.records.get(kind, 0) + 1
            yield

    def _read_document(self, path: Path, place: int, log: m.LogFile) -> None:
        """The TypeScript CLI (0.1.x) wrote one document."""
        draft = self._thread.draft
        data = read_whole(path)
        if data is None:
            draft.problems.append(m.Problem(reason="unreadable", detail=name_of(path)))
            return
        document = take_apart(data, "items")
        log.size, log.lines = len(data), data.count(b"\n") + 1
        self._thread.is_typescript = self._thread.is_bare = True
        draft.bytes_at = lambda offset, length: data[offset : offset + length]
        for damage in document.damages:
            draft.damage(place, damage)
        for element in document.elements:
            for found in ITEMS.line(element.data, element.place):
                if isinstance(found, Damage):
                    draft.damage(place, found)
                    continue
                kind = self._thread.feed_item(found[0], m.Source(place, *found[1]))
                log.records[kind] = log.records.get(kind, 0) + 1


class _Copied:
    """Tells the copied lines at the beginning of a fork from its own, by comparing them with the original."""

    def __init__(self, path: Path) -> None:
        self._lines = self._originals(path)
        self._done = False

    @staticmethod
    def _originals(path: Path) -> Iterator[Line]:
        for batch in read_batches(path, LINES, log_of(path)):
            for line in batch.records:
                if line.type != "session_meta":
                    yield line

    def has(self, line: Line) -> bool:
        """Whether a line stands in the original too, in the same order."""
        if line.type == "session_meta" or self._done:
            return not self._done
        for _ in range(_LOOK_AHEAD):
            original = next(self._lines, None)
            if original is None:
                break
            if original.type == line.type and original.payload == line.payload:
                return True
        self._done = True
        return False


def _is_inherited(line: Line, head: Head) -> bool:
    """Sub-agents of the second kind begin with a copy of their parent, and say where their own lines begin."""
    return head.own_from_ordinal is not None and line.ordinal is not None and line.ordinal < head.own_from_ordinal


def _origin(head: Head, ref: SessionRef) -> m.Origin:
    if head.subagent == "review":
        confidence = 1.0 if head.parent is not None else 0.6
        evidence = "parent id" if head.parent is not None else "time"
        return m.Origin(kind="review", session=ref.parent, evidence=evidence, confidence=confidence)
    if head.subagent is not None:
        return m.Origin(kind="subagent", session=ref.parent, evidence="source")
    if head.forked_from is not None:
        return m.Origin(kind="fork", session=head.forked_from, evidence="forked_from_id")
    if head.copied_from is not None:
        # Up to 0.77 going back makes a new thread with a copy of what came before.
        return m.Origin(kind="fork", session=head.copied_from, evidence="copied lines", confidence=0.9)
    return m.Origin(kind="new")


def _close_local_shells(draft: SessionBuilder) -> None:
    """From 0.118 on such a call is not run, and no result is written: nothing was left behind."""
    for call_id in [id for id, call in draft.open_calls.items() if call.name == "local_shell"]:
        draft.close_call(call_id)
