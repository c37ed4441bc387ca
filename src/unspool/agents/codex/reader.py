"""Reads the threads of Codex CLI: their files, the beginning they share with other threads, and their sub-agents."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import cached_property
from itertools import accumulate, islice
from operator import attrgetter, itemgetter
from pathlib import Path

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.sinks import DropMessages
from ...core.timestamps import shifted
from ...core.tree import NONE
from ...io.decode import Batch, Damage
from ...io.documents import split_document
from ...io.files import log_of, name_of, read_batches, read_whole, size_of, stem_of
from .._metadata import choose_title, digest, project_of, version_of
from ..base import BuilderFactory, Peek, SessionRef, Steps
from .discovery import CodexFolder, CodexHead, RolloutFile, last_time, rollout_file
from .first_prompt import first_prompt
from .inheritance import CopiedHistory, OriginalCopy, parent_copy
from .parser import SILENT_EVENTS, SILENT_RECORDS, CodexParser
from .schema import BARE_RECORDS, ITEMS, RECORDS, CodexRecord

_ENVELOPES = frozenset(("response_item", "event_msg"))
_AT_ONCE = timedelta(seconds=5)

_kind_of = attrgetter("type")
_body_of = attrgetter("payload.type")


class CodexSource:
    """The threads in one `.codex` folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folder = CodexFolder(root)

    @property
    def live(self) -> dict[str, m.Status]:
        """Codex CLI keeps no list of open sessions."""
        return {}

    # --- finding ---

    def refs(self) -> Iterator[SessionRef]:
        """Iterate over all threads."""
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

    def _parent(self, thread: str, head: CodexHead) -> str | None:
        """Return the thread that started a sub-agent. Reviews before 0.139 do not name it; it is found by time."""
        if head.parent is not None or head.subagent != "review" or head.started_at is None:
            return head.parent
        starts = self._folder.starts
        position = bisect_right(starts, (head.started_at, thread))
        others = (start for start in reversed(starts[max(0, position - 2) : position]) if start[1] != thread)
        before = next(others, None)
        return before[1] if before is not None and head.started_at - before[0] < timedelta(days=30) else None

    def ref(self, path: Path) -> SessionRef | None:
        """The thread of a file."""
        file = rollout_file(path, archived=path.parent.name == "archived_sessions")
        if file is not None and file.thread in self._folder.threads:
            return self._ref(file.thread, self._folder.threads[file.thread])
        head = self._folder.head(path)
        thread = head.id or (file.thread if file is not None else stem_of(path))
        return self._ref(thread, [file or RolloutFile(path, thread, thread, "", archived=False)])

    def contains(self, ref: SessionRef) -> bool:
        """Whether the thread is in this folder."""
        return ref.id in self._folder.threads

    def peek(self, ref: SessionRef) -> Peek:
        """Read the beginning of a thread, and the time of its last line."""
        head = self._folder.head(ref.path)
        return Peek(
            title=choose_title(self._folder.names.get(ref.id), self._first_prompt(ref.path)),
            project=project_of(head.cwd),
            started_at=head.started_at,
            ended_at=last_time(ref.more[-1] if ref.more else ref.path),
            version=head.version,
            size=sum(map(size_of, (ref.path, *ref.more))),
        )

    def has_inline_subagents(self, ref: SessionRef) -> bool:  # noqa: ARG002 - others have to look
        """Never: each sub-agent has its own file."""
        return False

    def fingerprint(self, ref: SessionRef) -> str:
        """Digest the name of a thread, its clears, the threads it may have started, and what it shares with others."""
        folder = self._folder
        children = folder.children.get(ref.id)
        reviews = [folder.reviews[number][0] for number in self._reviews_of.get(ref.id, ())]
        facts = (folder.names.get(ref.id), folder.clears.get(ref.id), children, reviews, ref.parent, ref.archived)
        return digest((*facts, *map(size_of, self._originals(ref)), *self._unnamed_reviews_during(ref)))

    @cached_property
    def _reviews_of(self) -> dict[str, list[int]]:
        """The numbers of the reviews by the thread that started them."""
        found: dict[str, list[int]] = {}
        for number, (id, head) in enumerate(self._folder.reviews):
            if (parent := self._parent(id, head)) is not None:
                found.setdefault(parent, []).append(number)
        return found

    def _first_prompt(self, path: Path) -> str | None:
        """Return the first prompt, which is in another file if the thread begins there."""
        paths = (*(file.path for file, _ in self._folder.bases(path)), path)
        return next((found for each in paths if (found := first_prompt(each))), None)

    def _originals(self, ref: SessionRef) -> Iterator[Path]:
        """Iterate over the files of other threads that a thread copied lines from or continues."""
        head = self._folder.head(ref.path)
        for file in self._folder.threads.get(head.copied_from or "", ())[:1]:
            yield file.path
        if head.history_base is not None and head.history_base.thread_id in self._folder.rollouts:
            yield self._folder.rollouts[head.history_base.thread_id].path

    # --- reading ---

    def read(self, ref: SessionRef, make: BuilderFactory) -> Steps:
        """Read a thread."""
        builder = make(ref.id, ref.kind) or SessionBuilder("codex", ref.id, ref.kind, DropMessages())
        head = self._folder.head(ref.path)
        parser = CodexParser(builder, version_of(head.version) or ((0, 29) if head.bare else ()))
        details = builder.details
        details.parent = ref.parent
        details.archived = ref.archived
        details.project = project_of(head.cwd)
        details.git = head.git
        details.origin = _origin(head, ref)
        if head.version:
            details.versions[head.version] = None
        reader = CodexFileReader(parser, self._folder, keeps_ordinals=bool(ref.more))
        yield from reader.read_bases(ref.path)
        for number, path in enumerate((ref.path, *ref.more)):
            yield from reader.read_own(path, self._folder.head(path), is_revert=number > 0)
        parser.finish()
        details.title = choose_title(self._folder.names.get(ref.id), parser.history.first_prompt)
        details.tip = parser.turn.tip if parser.turn.tip >= 0 else None
        details.tip_rule = "end of the thread"
        self._add_clears(ref, builder)
        self._add_subagents(ref, parser)
        _close_local_shells(builder)
        return [builder]

    def _add_clears(self, ref: SessionRef, builder: SessionBuilder) -> None:
        for at in self._folder.clears.get(ref.id, ()):
            # The prompt history has whole seconds.
            after = builder.last_before(shifted(at, timedelta(seconds=1)))
            builder.events.context_clears.append(
                m.ContextClear(after_message_index=after, timestamp=at, evidence="history", confidence=0.8)
            )

    def _add_subagents(self, ref: SessionRef, parser: CodexParser) -> None:
        builder, found = parser.builder, parser.subagents
        for spawned in found.spawned.values():
            files = self._folder.threads.get(spawned.thread_id)
            head = self._folder.head(files[0].path) if files else CodexHead()
            builder.events.subagents.append(
                m.Subagent(
                    message_index=spawned.message,
                    tool_use_id=spawned.call_id,
                    agent_id=spawned.thread_id,
                    session=spawned.thread_id if files else None,
                    status="completed" if spawned.thread_id in found.finished else "unknown",
                    linked_by=spawned.evidence,
                    agent_type=head.agent_role,
                )
            )
        for index, number in self._started_reviews(ref.id, found.reviews):
            id, head = self._folder.reviews[number]
            builder.events.subagents.append(
                m.Subagent(
                    message_index=index,
                    tool_use_id=None,
                    agent_id=id,
                    session=id,
                    status="completed",
                    linked_by="parent id" if head.parent is not None else "time",
                    agent_type="review",
                )
            )

    def _started_reviews(self, thread: str, events: Iterable[tuple[int, datetime | None]]) -> Iterator[tuple[int, int]]:
        """Find the review of each event: the first that the thread or the time of the event points to."""
        own = deque(self._reviews_of.get(thread, ()))
        taken: set[int] = set()
        for index, at in events:
            while own and own[0] in taken:
                own.popleft()
            fitting = [number for number in self._unnamed_reviews_at(at) if number not in taken] + list(islice(own, 1))
            if fitting:
                taken.add(min(fitting))
                yield index, min(fitting)

    def _unnamed_reviews_at(self, at: datetime | None) -> list[int]:
        """Return the numbers of the reviews that started at about a time and name no thread."""
        if at is None:
            return []
        starts = self._unnamed_reviews
        first = bisect_left(starts, shifted(at, -_AT_ONCE), key=itemgetter(0))
        last = bisect_right(starts, shifted(at, _AT_ONCE), key=itemgetter(0))
        return [number for start, number in starts[first:last] if abs(start - at) < _AT_ONCE]

    def _unnamed_reviews_during(self, ref: SessionRef) -> tuple[int, ...]:
        """Return a checksum of the reviews that started while a thread was written to and name no thread.

        Each of them may be linked to the thread by time. Returns nothing if there are none.
        """
        starts, begin = self._unnamed_reviews, self._folder.head(ref.path).started_at
        first = 0 if begin is None else bisect_left(starts, shifted(begin, -_AT_ONCE), key=itemgetter(0))
        if first == len(starts):
            return ()
        end = last_time(ref.more[-1] if ref.more else ref.path)
        last = len(starts) if end is None else bisect_right(starts, shifted(end, _AT_ONCE), key=itemgetter(0))
        sums = self._unnamed_review_sums
        return (sums[last] - sums[first],) if last > first else ()

    @cached_property
    def _unnamed_review_sums(self) -> list[int]:
        """The sum of the hashes of the first 0, 1, 2, … reviews that name no thread."""
        ids = (self._folder.reviews[number][0] for _, number in self._unnamed_reviews)
        return list(accumulate((int(digest(id), 16) for id in ids), initial=0))

    @cached_property
    def _unnamed_reviews(self) -> list[tuple[datetime, int]]:
        """The starts and numbers of the reviews that do not name the thread that started them, the oldest first."""
        heads = ((number, head) for number, (_, head) in enumerate(self._folder.reviews))
        return sorted((head.started_at, number) for number, head in heads if head.parent is None and head.started_at)


class _Rollout:
    """The ordinals of the lines in one file, and their messages."""

    def __init__(self, base: _Rollout | None, start: int) -> None:
        self._base = base
        self._start = start
        self._ordinals: list[int] = []
        self._messages: list[int] = []

    def note(self, ordinal: int, message: int) -> None:
        self._ordinals.append(ordinal)
        self._messages.append(message)

    def before(self, ordinal: int) -> int:
        """Return the last message before an ordinal, in this file or in the one it continues."""
        rollout: _Rollout | None = self
        while rollout is not None:
            position = bisect_left(rollout._ordinals, ordinal) - 1
            if position >= 0:
                return rollout._messages[position]
            ordinal = min(ordinal, rollout._start)
            rollout = rollout._base
        return NONE


class CodexFileReader:
    """Reads the files of a thread, in order, and those it continues."""

    def __init__(self, parser: CodexParser, folder: CodexFolder, keeps_ordinals: bool) -> None:
        self._parser = parser
        self._folder = folder
        self._keeps_ordinals = keeps_ordinals
        self._rollouts: dict[str, _Rollout] = {}

    def read_bases(self, path: Path) -> Iterator[None]:
        """Read the beginning that a fork shares with other threads (0.148 and later copy nothing)."""
        for file, end in self._folder.bases(path):
            yield from self._read(file.path, self._folder.head(file.path), file.rollout, "base", end=end)

    def read_own(self, path: Path, head: CodexHead, is_revert: bool) -> Iterator[None]:
        """Read a file of the thread; a second one continues from an earlier point of the first."""
        file = rollout_file(path)
        if is_revert:
            base = head.history_base
            known = self._rollouts.get(base.thread_id or "") if base is not None else None
            target = NONE
            if known is not None and base is not None and base.end_ordinal_exclusive is not None:
                target = known.before(base.end_ordinal_exclusive)
            self._parser.rollbacks.go_back(target, "revert")
        yield from self._read(path, head, file.rollout if file is not None else "", "log")

    def _read(
        self, path: Path, head: CodexHead, rollout: str, role: m.FileRole, end: int | None = None
    ) -> Iterator[None]:
        builder = self._parser.builder
        file = len(builder.details.files)
        log = log_of(path, role)
        builder.details.files.append(log)
        if path.suffix == ".json":
            self._read_document(path, file, log)
            return
        if head.bare:
            yield from self._read_bare(path, file, log)
            return
        base = head.history_base
        above = self._rollouts.get(base.thread_id or "") if base is not None else None
        start = base.end_ordinal_exclusive or 0 if base is not None else 0
        known = self._rollouts[rollout] = _Rollout(above, start)
        copied = self._copied(head) if role == "log" else None
        kinds: Counter[str] = Counter()
        bodies: Counter[str] = Counter()
        for batch in read_batches(path, RECORDS, log):
            builder.bytes_at = batch.bytes_at
            for damage in batch.damages:
                builder.damage(file, damage)
            kinds.update(map(_kind_of, batch.records))
            bodies.update(map(_body_of, batch.records))
            if role == "log" and copied is None and not self._keeps_ordinals:
                self._read_all(batch, file)
            elif not self._read_some(batch, file, copied, end, known):
                break
            yield
        log.records = {kind: count for kind, count in (kinds | bodies).items() if kind and kind not in _ENVELOPES}

    def _read_all(self, batch: Batch[CodexRecord], file: int) -> None:
        """Read records that all belong to the thread."""
        parser = self._parser
        read, read_item, read_event = parser.read, parser.read_item, parser.read_event
        for record, number, offset, length in batch.rows():
            kind = record.type
            if kind == "response_item":
                read_item(record, record.payload, m.Source(file, number, offset, length), False)
            elif kind == "event_msg":
                if record.payload.type not in SILENT_EVENTS:
                    read_event(record, record.payload, m.Source(file, number, offset, length), False)
            elif kind not in SILENT_RECORDS:
                read(record, m.Source(file, number, offset, length), False)

    def _read_some(
        self,
        batch: Batch[CodexRecord],
        file: int,
        copied: CopiedHistory | None,
        end: int | None,
        known: _Rollout,
    ) -> bool:
        """Read records that may belong to another thread, and return whether more of them may follow."""
        builder = self._parser.builder
        for record, number, offset, length in batch.rows():
            if end is not None and record.ordinal is not None and record.ordinal >= end:
                return False
            inherited = end is not None or (copied is not None and copied.has(record))
            count = len(builder)
            self._parser.read(record, m.Source(file, number, offset, length), inherited)
            if record.ordinal is not None and len(builder) > count:
                known.note(record.ordinal, count)
        return True

    def _copied(self, head: CodexHead) -> CopiedHistory | None:
        """Return a filter for the copied lines at the beginning of a thread; None if all lines are its own."""
        if head.subagent is not None:
            return parent_copy(head)
        files = self._folder.threads.get(head.copied_from or "")
        return OriginalCopy(files[0].path) if files else None

    def _read_bare(self, path: Path, file: int, log: m.LogFile) -> Iterator[None]:
        builder = self._parser.builder
        self._parser.legacy.is_bare = True
        for batch in read_batches(path, BARE_RECORDS, log):
            builder.bytes_at = batch.bytes_at
            for damage in batch.damages:
                builder.damage(file, damage)
            for record, number, offset, length in batch.rows():
                kind = self._parser.read_bare(record, m.Source(file, number, offset, length))
                log.records[kind] = log.records.get(kind, 0) + 1
            yield

    def _read_document(self, path: Path, file: int, log: m.LogFile) -> None:
        """Read a session of the TypeScript CLI (0.1.x), which is a single document."""
        builder = self._parser.builder
        data = read_whole(path)
        if data is None:
            builder.events.problems.append(m.Problem(reason="unreadable", detail=name_of(path)))
            return
        document = split_document(data, "items")
        log.size, log.lines = len(data), document.lines
        self._parser.legacy.is_typescript = self._parser.legacy.is_bare = True
        builder.bytes_at = lambda offset, length: data[offset : offset + length]
        for damage in document.damages:
            builder.damage(file, damage)
        for element in document.elements:
            for found in ITEMS.line(element.data, element.location):
                if isinstance(found, Damage):
                    builder.damage(file, found)
                    continue
                kind = self._parser.read_lone_item(found[0], m.Source(file, *found[1]))
                log.records[kind] = log.records.get(kind, 0) + 1


def _origin(head: CodexHead, ref: SessionRef) -> m.Origin:
    if head.subagent == "review":
        confidence = 1.0 if head.parent is not None else 0.6
        evidence = "parent id" if head.parent is not None else "time"
        return m.Origin(kind="review", session=ref.parent, evidence=evidence, confidence=confidence)
    if head.subagent is not None:
        return m.Origin(kind="subagent", session=ref.parent, evidence="source")
    if head.forked_from is not None:
        return m.Origin(kind="fork", session=head.forked_from, evidence="forked_from_id")
    if head.copied_from is not None:
        # Up to 0.77, going back starts a new thread with a copy of the earlier messages.
        return m.Origin(kind="fork", session=head.copied_from, evidence="copied lines", confidence=0.9)
    return m.Origin(kind="new")


def _close_local_shells(builder: SessionBuilder) -> None:
    """Close local shell calls: since 0.118 they are not run and have no result, so they are not unfinished."""
    for call_id in [id for id, call in builder.calls.open.items() if call.name == "local_shell"]:
        builder.close_call(call_id)
