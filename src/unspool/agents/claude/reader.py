"""Reads the sessions of Claude Code: their files, their sub-agents, and facts from other files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from operator import attrgetter
from pathlib import Path

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.sinks import DropMessages
from ...io.decode import Batch
from ...io.files import log_of, name_of, read_batches, read_whole, size_of, stem_of
from .._metadata import choose_title, digest, project_of, version_of
from ..base import BuilderFactory, Peek, SessionRef, Steps, finish
from .clears import Clear, add_clears, clear_origin, find_clears
from .discovery import AGENT_FILE, ClaudeHome, ProjectFolder
from .families import FileSequence, Originals, ids_in
from .finalize import finalize
from .first_prompt import title_in
from .forks import COPIES, find_origin, originals_of
from .heads import holds_subagents, read_end_time, session_of
from .inline_agents import InlineAgents
from .lineage import drop_echo_in_child, drop_echo_in_parent, link_agents, link_inline
from .parser import ClaudeParser
from .plans import PLAN_EVIDENCE
from .saved_outputs import FOLDER as SAVED
from .saved_outputs import SavedOutputs
from .schema import RECORDS, ClaudeRecord
from .titles import TITLE_RECORDS, ClaudeTitles, has_summaries_elsewhere

_CHAIN = frozenset(("user", "assistant", "system", "attachment"))
_SILENT = frozenset((
    "agent-name", "agent-color", "agent-setting", "tag", "mode", "permission-mode", "atis-latch", "tools-used",
    "cost-state", "file-history-snapshot", "file-history-delta", "api-request", "api-request-blob",
    "api-request-shape", "pr-link", "worktree-state", "content-replacement", "task-summary", "speculation-accept",
    "bridge-session", "frame-link", "artifact-comment-monitor", "artifact-autoreact-ledger", "attribution-snapshot",
    "data-flow-records", "data-flow-incomplete", "dev-mods", "isolation-latch", "memory-mode", "observer-ref",
    "relocated", "resume-head-vouch", "session-owner",
))  # fmt: skip
"""Records that say nothing about the conversation."""

_MEMORY = Path("session-memory", "summary.md")
_kind_of = attrgetter("type")


class ClaudeSource:
    """The sessions in one `.claude` folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._home = ClaudeHome(root)
        self._clears: dict[Path, dict[str, list[Clear]]] = {}
        self._agent_files: dict[Path, FileSequence] = {}
        """Copies of a sub-agent in order, by the path of one of them."""
        self._origins: dict[str, m.Origin] = {}
        self._parent: tuple[str, list[m.Subagent], list[m.Interruption]] | None = None

    @property
    def live(self) -> dict[str, m.Status]:
        """Sessions that a running program has open."""
        return self._home.live

    # --- finding ---

    def refs(self) -> Iterator[SessionRef]:
        """Iterate over all sessions, without warm-ups and files that have no conversation."""
        for folder in self._home.folders():
            for session in folder.sessions:
                yield self._session_ref(folder, session)
                yield from self._agent_refs(folder, session)
            for session in folder.agents:
                if session not in folder.sessions:
                    yield from self._agent_refs(folder, session)

    def _session_ref(self, folder: ProjectFolder, session: str) -> SessionRef:
        files = folder.sessions[session]
        return SessionRef(
            agent="claude", id=session, kind="main", root=self.root, path=files.head.path, more=files.more
        )

    def _agent_refs(self, folder: ProjectFolder, session: str) -> Iterator[SessionRef]:
        for agent in folder.agents_of(session).files:
            id = f"{session}/{agent.id}"
            yield SessionRef(agent="claude", id=id, kind="subagent", root=self.root, path=agent.path, parent=session)

    def ref(self, path: Path) -> SessionRef | None:
        """Return the session of a file."""
        if path.parent.name == SAVED:
            return None
        folder = self._home.folder_of(path)
        head = folder.head(path)
        name = AGENT_FILE.match(path.name)
        if name is None:
            session = session_of(head) if head is not None else stem_of(path)
            if session in folder.sessions:
                return self._session_ref(folder, session)
            return SessionRef(agent="claude", id=session, kind="main", root=self.root, path=path)
        nested = next((name_of(parent.parent.name) for parent in path.parents if parent.name == "subagents"), None)
        parent = nested or (head.session if head is not None else None) or "?"
        id = f"{parent}/{name_of(name['id'])}"
        return SessionRef(agent="claude", id=id, kind="subagent", root=self.root, path=path, parent=parent)

    def contains(self, ref: SessionRef) -> bool:
        """Whether the session is in this folder and has a conversation."""
        folder = self._home.folder_of(ref.path)
        if ref.kind == "main":
            return ref.id in folder.sessions
        return any(agent.path == ref.path for agent in folder.agents_of(ref.parent).files)

    def peek(self, ref: SessionRef) -> Peek:
        """Read the beginning of a session, and its last lines."""
        folder = self._home.folder_of(ref.path)
        head = folder.head(ref.path)
        if head is None:
            return Peek(size=size_of(ref.path))
        return Peek(
            title=title_in(head, (ref.path, *ref.more), folder.summaries),
            project=project_of(head.cwd),
            started_at=head.started_at,
            ended_at=read_end_time(ref.more[-1] if ref.more else ref.path),
            version=head.version,
            size=sum(map(size_of, (ref.path, *ref.more))),
        )

    def has_inline_subagents(self, ref: SessionRef) -> bool:
        """Whether sub-agents may be in the file of the session."""
        return ref.kind == "main" and any(map(holds_subagents, (ref.path, *ref.more)))

    def fingerprint(self, ref: SessionRef) -> str:
        """Digest the files of related sessions, clears, the origin, titles in other files, and whether it is open."""
        folder = self._home.folder_of(ref.path)
        owner = ref.parent or ref.id
        files = folder.sessions.get(owner)
        related = [files.head.path] if ref.kind == "subagent" and files is not None else []
        if ref.id in folder.subfolders:
            related.append(folder.subfolders[ref.id] / _MEMORY)
        origin = self._origin(ref.id, folder) if ref.kind == "main" else None
        originals = self._originals(ref, folder, origin)
        facts = (
            [(path.name, size_of(path)) for path in related],
            self._clears_in(folder).get(ref.id, []),
            origin,
            len(folder.summaries),
            self._home.live.get(ref.id),
        )
        agents = folder.agents_of(owner).mark
        return digest((*facts, *originals.mark, *([agents] if agents else ())))

    def _origin(self, session: str, folder: ProjectFolder) -> m.Origin:
        if session not in self._origins:
            cleared = clear_origin(session, folder, self._home, self._clears_in(folder).get(session, ()))
            self._origins[session] = cleared or find_origin(session, folder, self._home)
        return self._origins[session]

    def _originals(self, ref: SessionRef, folder: ProjectFolder, origin: m.Origin | None) -> Originals:
        """Return what a session was copied from; for a sub-agent, the copies of it that come before."""
        if ref.kind == "main":
            return originals_of(ref.id, folder, self._home, origin) if origin is not None else Originals()
        head = folder.head(ref.path)
        twins = folder.agent_copies.get((ref.id.rsplit("/", 1)[-1], head.first_uuid if head is not None else None), ())
        if len(twins) < 2:
            return Originals()
        if twins[0][1].path not in self._agent_files:
            forks = {session for session, _ in twins if self._origin(session, folder).kind in COPIES}
            order = sorted(twins, key=lambda twin: (twin[1].head.session != twin[0], twin[0] in forks, *twin[:1]))
            self._agent_files[twins[0][1].path] = FileSequence({name_of(file.path): (file.path,) for _, file in order})
        return self._agent_files[twins[0][1].path].before(name_of(ref.path))

    def _clears_in(self, folder: ProjectFolder) -> dict[str, list[Clear]]:
        if folder.path not in self._clears:
            self._clears[folder.path] = find_clears(folder, self._home)
        return self._clears[folder.path]

    # --- reading ---

    def read(self, ref: SessionRef, make: BuilderFactory) -> Steps:
        """Read a session, and the sub-agents that old versions write into the same file."""
        folder = self._home.folder_of(ref.path)
        parsers = yield from self._parse(ref, make, folder)
        if ref.kind == "main":
            self._complete_main(ref, folder, parsers[0], parsers[1:])
        else:
            self._complete_subagent(ref, folder, parsers[0])
        for parser in parsers:
            finalize(parser)
        return [parser.builder for parser in parsers]

    def _parse(
        self, ref: SessionRef, make: BuilderFactory, folder: ProjectFolder
    ) -> Generator[None, None, list[ClaudeParser]]:
        """Read all conversations in the files of a session, its own first."""
        builder = make(ref.id, ref.kind) or SessionBuilder("claude", ref.id, ref.kind, DropMessages())
        builder.details.parent = ref.parent
        if ref.kind == "subagent":
            builder.details.origin = m.Origin(kind="subagent", session=ref.parent)
        else:
            stored = builder.originals.origin() if builder.originals is not None else None
            builder.details.origin = stored or self._origin(ref.id, folder)
        main = ClaudeParser(builder)
        main.plans.starts_session = builder.details.origin.evidence == PLAN_EVIDENCE
        main.calls.saved = SavedOutputs(folder.path, ref.parent or ref.id)
        inline = InlineAgents(main, make, with_files=folder.agents_of(ref.parent or ref.id).ids)
        reader = ClaudeFileReader(ref, main, inline, self._copied_ids(ref, folder, builder))
        for file, path in enumerate((ref.path, *ref.more)):
            log = log_of(path)
            builder.details.files.append(log)
            counts: Counter[str] = Counter()
            for batch in read_batches(path, RECORDS, log):
                for damage in batch.damages:
                    builder.damage(file, damage)
                counts.update(map(_kind_of, batch.records))
                reader.read(batch, file)
                yield
            log.records = dict(counts)
        reader.finish(folder)
        return reader.parsers

    def _copied_ids(self, ref: SessionRef, folder: ProjectFolder, builder: SessionBuilder) -> frozenset[str]:
        """Return the ids of the messages in the session that this one was copied from."""
        origin = builder.details.origin
        name = origin.session if origin.kind in COPIES else None
        if ref.kind == "subagent":
            name = self._copied_agent(ref, folder, builder)
        stored = builder.originals.lines_of(name) if name is not None and builder.originals is not None else ()
        return ids_in(stored) or self._originals(ref, folder, origin).ids()

    def _copied_agent(self, ref: SessionRef, folder: ProjectFolder, builder: SessionBuilder) -> str | None:
        """Return the sub-agent that this one may be a copy of: its lines name another session, or its own is a fork."""
        head = folder.head(ref.path)
        session = head.session if head is not None else None
        if session in (None, ref.parent) and ref.parent is not None and builder.originals is not None:
            origin = builder.originals.origin_of(ref.parent)
            session = origin.session if origin is not None and origin.kind in COPIES else None
        return f"{session}/{ref.id.rsplit('/', 1)[-1]}" if session is not None else None

    def _complete_main(
        self, ref: SessionRef, folder: ProjectFolder, main: ClaudeParser, inline: list[ClaudeParser]
    ) -> None:
        builder = main.builder
        add_clears(builder, [clear for clear in self._clears_in(folder).get(ref.id, ()) if clear.session == ref.id])
        link_inline(main, inline)
        link_agents(main, folder.agents_of(ref.id).top, ref.id)
        if main.subagents.stopped:
            rejected = {parser.builder.id for parser in inline if parser.interruptions.ended_by_rejection}
            rejected |= self._rejected_children(main, folder, ref)
            drop_echo_in_parent(builder, rejected)
            for parser in inline:
                drop_echo_in_child(parser.builder, builder.events.subagents, builder.events.interruptions)
        self._parent = ref.id, builder.events.subagents, builder.events.interruptions
        if ref.id in folder.subfolders:
            self._add_memory(folder.subfolders[ref.id] / _MEMORY, builder)
        builder.details.live_status = self._home.live.get(ref.id)

    def _rejected_children(self, main: ClaudeParser, folder: ProjectFolder, ref: SessionRef) -> set[str]:
        """Return the sub-agents that ended with a rejection, which also stopped the call that started them."""
        files = {f"{ref.id}/{file.id}": file.path for file in folder.agents_of(ref.id).files}
        links = main.builder.events.subagents
        stopped = [link.session for link in links if link.tool_use_id in main.subagents.stopped]
        return {id for id in stopped if id in files and self._lean(files[id], folder).interruptions.ended_by_rejection}

    def _complete_subagent(self, ref: SessionRef, folder: ProjectFolder, parser: ClaudeParser) -> None:
        agent_id = ref.id.rsplit("/", 1)[-1]
        family = folder.agents_of(ref.parent)
        link_agents(parser, family.below(agent_id), ref.parent or "?")
        files = folder.sessions.get(ref.parent or "")
        if parser.builder.events.interruptions and ref.parent is not None and files is not None:
            if self._parent is None or self._parent[0] != ref.parent:
                parent = self._lean(files.head.path, folder)
                link_agents(parent, family.top, ref.parent)
                self._parent = ref.parent, parent.builder.events.subagents, parent.builder.events.interruptions
            drop_echo_in_child(parser.builder, self._parent[1], self._parent[2])

    def _lean(self, path: Path, folder: ProjectFolder) -> ClaudeParser:
        """Read a related file only for its events."""
        ref = self.ref(path)
        assert ref is not None
        builder = SessionBuilder("claude", ref.id, ref.kind, DropMessages())
        return finish(self._parse(ref, lambda id, _: builder if id == ref.id else None, folder))[0]

    def _add_memory(self, path: Path, builder: SessionBuilder) -> None:
        """Add the summary that some versions store next to the session; the last compaction without one used it."""
        data = read_whole(path)
        if data is None:
            return
        text = data.decode("utf-8", "replace")
        builder.details.files.append(m.LogFile(path=name_of(path), size=len(data), role="memory", text=text))
        without = [boundary for boundary in builder.events.boundaries if boundary.summary is None]
        if without:
            without[-1].summary = text
            without[-1].summary_source = "session-memory"


class ClaudeFileReader:
    """Passes the records of a session's files to the conversations they belong to."""

    def __init__(self, ref: SessionRef, main: ClaudeParser, inline: InlineAgents, copied: frozenset[str]) -> None:
        self._ref = ref
        self._main = main
        self._inline = inline
        self._copied = copied
        self._titles = ClaudeTitles(ref.kind)
        self._first_files: dict[int, int] | None = {} if ref.more else None
        """The file in which each line, by its hash, was found first; only for a session with several files."""

    @property
    def parsers(self) -> list[ClaudeParser]:
        """All conversations, that of the session first."""
        return [self._main, *self._inline.parsers]

    def read(self, batch: Batch[ClaudeRecord], file: int) -> None:
        """Read a batch: every record becomes a message, a link, metadata, or a problem."""
        read, copied, titles = self._main.read, self._copied, self._titles
        for parser in self.parsers:
            parser.builder.bytes_at = batch.bytes_at
        is_main, rows = self._ref.kind == "main", batch.rows()
        if self._first_files is not None:
            rows = (row for row in rows if not self._is_copy(batch.bytes_at(*row[2:]), file))
        for record, number, offset, length in rows:
            kind = record.type
            if kind in _CHAIN:
                source = m.Source(file, number, offset, length)
                if record.is_sidechain and is_main:
                    titles.read_task(record)
                    self._inline.of_sidechain(record).read(record, source, record.uuid in copied)
                else:
                    if titles.first_prompt is None:
                        titles.read(record)
                    read(record, source, record.uuid in copied)
            elif kind not in _SILENT:
                self._read_metadata(record, m.Source(file, number, offset, length))

    def _is_copy(self, line: bytes, file: int) -> bool:
        """Whether an earlier file has the same line: a folder may contain a copy of a file under another name."""
        assert self._first_files is not None
        return self._first_files.setdefault(hash(line), file) != file

    def _read_metadata(self, record: ClaudeRecord, source: m.Source) -> None:
        kind = record.type
        if kind == "progress":
            self._inline.of_progress(record).progress(record)
            if record.data is not None and record.data.agent_id is not None and self._ref.kind == "main":
                self._inline.read_progress(record, source, record.uuid in self._copied)
        elif kind == "last-prompt":
            if record.leaf_uuid is not None:
                self._main.chain.point(record.leaf_uuid)
        elif kind == "queue-operation":
            self._main.queue.read(record, source)
        elif kind in TITLE_RECORDS:
            self._titles.read(record)
        elif record.uuid is not None and record.message is not None:
            self._main.read(record, source)
        else:
            detail = f"a record of type {kind!r}" if kind else "a record without a type"
            self._main.builder.unknown_record(detail, source)

    def finish(self, folder: ProjectFolder) -> None:
        """Finish all conversations after the last record."""
        head = folder.head(self._ref.path)
        if head is not None and has_summaries_elsewhere(version_of(head.version)):
            self._titles.add_summaries(folder.summaries)
        for parser in self.parsers:
            parser.finish()
            details = parser.builder.details
            details.project = project_of(head.cwd) if head is not None else None
            details.git = m.Git(branch=head.git_branch) if head is not None and head.git_branch else None
            details.title = choose_title(None, parser.authors.task)
        self._main.builder.details.title = self._titles.choose(self._main.builder.contains)
