"""Reading a session of Claude Code: its files, its sub-agents, and what the files around it add."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from operator import attrgetter
from pathlib import Path

from ...core import model as m
from ...core.builder import SessionBuilder
from ...io.decode import Batch
from ...io.files import log_of, name_of, read_batches, read_whole, size_of
from .._metadata import digest, project_of, title_of, version_of
from ..base import BuilderFactory, Peek, SessionRef, Steps, finish
from .discovery import AGENT_FILE, ClaudeFolder, Surroundings, holds_sidechain, read_tail, read_title, session_of
from .finalize import end
from .lineage import (
    Clear,
    add_clears,
    copied_ids,
    drop_echo_in_child,
    drop_echo_in_parent,
    find_clears,
    find_origin,
    link_agents,
    link_inline,
    original_of,
)  # fmt: skip
from .parser import ClaudeParser
from .saved_outputs import FOLDER as SAVED
from .saved_outputs import SavedOutputs
from .schema import LINES, Line

_CHAIN = frozenset(("user", "assistant", "system", "attachment"))
_TITLES = frozenset(("summary", "custom-title", "ai-title"))
_SILENT = frozenset((
    "agent-name", "agent-color", "agent-setting", "tag", "mode", "permission-mode", "atis-latch", "tools-used",
    "cost-state", "file-history-snapshot", "file-history-delta", "api-request", "api-request-blob",
    "api-request-shape", "pr-link", "worktree-state", "content-replacement", "task-summary", "speculation-accept",
))  # fmt: skip
"""Records that say nothing about the conversation."""

_MEMORY = Path("session-memory", "summary.md")
_kind_of = attrgetter("type")


class ClaudeSource:
    """Sessions under one `.claude` folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._around = Surroundings(root)
        self._clears: dict[Path, list[Clear]] = {}
        self._origins: dict[str, m.Origin] = {}
        self._parent: tuple[str, list[m.Subagent], list[m.Interruption]] | None = None

    @property
    def live(self) -> dict[str, m.Status]:
        """Sessions that a running program has open."""
        return self._around.live

    # --- finding ---

    def refs(self) -> Iterator[SessionRef]:
        """All sessions; files without a conversation, and warm-ups, are none."""
        for folder in self._around.folders():
            for session in folder.sessions:
                yield self._session_ref(folder, session)
                yield from self._agent_refs(folder, session)
            for session in folder.agents:
                if session not in folder.sessions:
                    yield from self._agent_refs(folder, session)

    def _session_ref(self, folder: ClaudeFolder, session: str) -> SessionRef:
        files = folder.sessions[session]
        return SessionRef(
            agent="claude", id=session, kind="main", root=self.root, path=files.head.path, more=files.more
        )

    def _agent_refs(self, folder: ClaudeFolder, session: str) -> Iterator[SessionRef]:
        for agent in folder.agents.get(session, ()):
            yield SessionRef(
                agent="claude", id=f"{session}/{agent.id}", kind="subagent", root=self.root, path=agent.path,
                parent=session,
            )  # fmt: skip

    def ref(self, path: Path) -> SessionRef | None:
        """The session of a file."""
        if path.parent.name == SAVED:
            return None
        folder = self._around.folder_of(path)
        head = folder.head(path)
        name = AGENT_FILE.match(path.name)
        if name is None:
            session = session_of(head) if head is not None else path.stem
            if session in folder.sessions:
                return self._session_ref(folder, session)
            return SessionRef(agent="claude", id=session, kind="main", root=self.root, path=path)
        nested = next((parent.parent.name for parent in path.parents if parent.name == "subagents"), None)
        parent = nested or (head.session if head is not None else None) or "?"
        id = f"{parent}/{name['id']}"
        return SessionRef(agent="claude", id=id, kind="subagent", root=self.root, path=path, parent=parent)

    def lists(self, ref: SessionRef) -> bool:
        """Whether there is a conversation in it."""
        folder = self._around.folder_of(ref.path)
        if ref.kind == "main":
            return ref.id in folder.sessions
        return any(agent.path == ref.path for agent in folder.agents.get(ref.parent or "", ()))

    def peek(self, ref: SessionRef) -> Peek:
        """The beginning of a session, and its last lines."""
        head = self._around.folder_of(ref.path).head(ref.path)
        if head is None:
            return Peek(size=size_of(ref.path))
        tail = read_tail(ref.more[-1] if ref.more else ref.path)
        return Peek(
            title=title_of(tail.title or read_title(ref.path) or head.prompt),
            project=project_of(head.cwd),
            started_at=head.started_at,
            ended_at=tail.ended_at,
            version=head.version,
            size=sum(map(size_of, (ref.path, *ref.more))),
        )

    def has_inline_subagents(self, ref: SessionRef) -> bool:
        """1.0.x wrote what sub-agents said into the session's file."""
        return ref.kind == "main" and any(map(holds_sidechain, (ref.path, *ref.more)))

    def around(self, ref: SessionRef) -> str:
        """Its family's files, clears, its origin and what it copied, a title from elsewhere, and whether it is open."""
        folder = self._around.folder_of(ref.path)
        owner = ref.parent or ref.id
        files = folder.sessions.get(owner)
        family = [file.path for file in folder.agents.get(owner, ())]
        if ref.kind == "subagent" and files is not None:
            family.append(files.head.path)
        memory = [folder.subfolders[ref.id] / _MEMORY] if ref.id in folder.subfolders else []
        origin = self._origin(ref, folder) if ref.kind == "main" else None
        original = original_of(folder, origin) if origin is not None else ()
        facts = (
            [(path.name, size_of(path)) for path in (*family, *memory)],
            [clear for clear in self._clears_in(folder) if ref.id in (clear.session, clear.next_session)],
            origin,
            len(folder.summaries),
            self._around.live.get(ref.id),
        )
        return digest((*facts, *map(size_of, original)))

    def _origin(self, ref: SessionRef, folder: ClaudeFolder) -> m.Origin:
        if ref.id not in self._origins:
            self._origins[ref.id] = find_origin(ref.id, folder, self._around)
        return self._origins[ref.id]

    def _clears_in(self, folder: ClaudeFolder) -> list[Clear]:
        if folder.path not in self._clears:
            self._clears[folder.path] = find_clears(folder, self._around)
        return self._clears[folder.path]

    # --- reading ---

    def read(self, ref: SessionRef, make: BuilderFactory) -> Steps:
        """Read a session, and the sub-agents older versions put into the same file."""
        folder = self._around.folder_of(ref.path)
        threads = yield from self._read_threads(ref, make, folder)
        if ref.kind == "main":
            self._complete_main(ref, folder, threads[0], threads[1:])
        else:
            self._complete_subagent(ref, folder, threads[0])
        for thread in threads:
            end(thread)
        return [thread.draft for thread in threads]

    def _read_threads(
        self, ref: SessionRef, make: BuilderFactory, folder: ClaudeFolder
    ) -> Generator[None, None, list[ClaudeParser]]:
        """All conversations of a session's files, its own first."""
        draft = make(ref.id, ref.kind) or SessionBuilder("claude", ref.id, ref.kind, keep=False)
        draft.parent = ref.parent
        if ref.kind == "subagent":
            draft.origin = m.Origin(kind="subagent", session=ref.parent)
        else:
            draft.origin = self._origin(ref, folder)
        main = ClaudeParser(draft)
        main.calls.saved = SavedOutputs(folder.path, ref.parent or ref.id)
        reading = _Reading(ref, main, make, copied_ids(folder, draft.origin))
        for place, path in enumerate((ref.path, *ref.more)):
            log = log_of(path)
            draft.files.append(log)
            counts: Counter[str] = Counter()
            for batch in read_batches(path, LINES, log):
                for damage in batch.damages:
                    draft.damage(place, damage)
                counts.update(map(_kind_of, batch.records))
                reading.take(batch, place)
                yield
            log.records = dict(counts)
        reading.finish(folder)
        return reading.threads

    def _complete_main(
        self, ref: SessionRef, folder: ClaudeFolder, main: ClaudeParser, inline: list[ClaudeParser]
    ) -> None:
        draft = main.draft
        add_clears(draft, [clear for clear in self._clears_in(folder) if clear.session == ref.id])
        link_inline(main, inline)
        link_agents(main, [agent for agent in folder.agents.get(ref.id, ()) if agent.is_top], ref.id)
        if main.calls.stopped_agents:
            refused = {thread.draft.id for thread in inline if thread.ended_by_refusal}
            refused |= self._refused_children(main, folder, ref)
            drop_echo_in_parent(draft, refused)
            for thread in inline:
                drop_echo_in_child(thread.draft, draft.subagents, draft.interruptions)
        self._parent = ref.id, draft.subagents, draft.interruptions
        if ref.id in folder.subfolders:
            self._add_memory(folder.subfolders[ref.id] / _MEMORY, draft)
        draft.live_status = self._around.live.get(ref.id)

    def _refused_children(self, main: ClaudeParser, folder: ClaudeFolder, ref: SessionRef) -> set[str]:
        """Sub-agents whose last word is a refusal that also stopped the call that started them."""
        files = {f"{ref.id}/{file.id}": file.path for file in folder.agents.get(ref.id, ())}
        stopped = [link.session for link in main.draft.subagents if link.tool_use_id in main.calls.stopped_agents]
        return {id for id in stopped if id in files and self._lean(files[id], folder).ended_by_refusal}

    def _complete_subagent(self, ref: SessionRef, folder: ClaudeFolder, thread: ClaudeParser) -> None:
        agent_id = ref.id.rsplit("/", 1)[-1]
        family = folder.agents.get(ref.parent or "", [])
        link_agents(thread, [agent for agent in family if agent.meta.parent_agent_id == agent_id], ref.parent or "?")
        files = folder.sessions.get(ref.parent or "")
        if thread.draft.interruptions and ref.parent is not None and files is not None:
            if self._parent is None or self._parent[0] != ref.parent:
                parent = self._lean(files.head.path, folder)
                link_agents(parent, [agent for agent in family if agent.is_top], ref.parent)
                self._parent = ref.parent, parent.draft.subagents, parent.draft.interruptions
            drop_echo_in_child(thread.draft, self._parent[1], self._parent[2])

    def _lean(self, path: Path, folder: ClaudeFolder) -> ClaudeParser:
        """Another file of the family, read for its events alone."""
        ref = self.ref(path)
        assert ref is not None
        draft = SessionBuilder("claude", ref.id, ref.kind, keep=False)
        return finish(self._read_threads(ref, lambda id, _: draft if id == ref.id else None, folder))[0]

    def _add_memory(self, path: Path, draft: SessionBuilder) -> None:
        """Some versions keep a running summary beside the session; it is what a compaction used."""
        data = read_whole(path)
        if data is None:
            return
        draft.files.append(m.LogFile(path=name_of(path), size=len(data), role="memory"))
        without = [boundary for boundary in draft.boundaries if boundary.summary is None]
        if without:
            without[-1].summary = data.decode("utf-8", "replace")
            without[-1].summary_source = "session-memory"


class _Reading:
    """The lines of a session's files, each to the conversation it belongs to."""

    def __init__(self, ref: SessionRef, main: ClaudeParser, make: BuilderFactory, copied: frozenset[str]) -> None:
        self.threads = [main]
        self._ref = ref
        self._main = main
        self._make = make
        self._copied = copied
        self._sides: dict[str, ClaudeParser] = {}
        self._titles: dict[str, str] = {}

    def take(self, batch: Batch[Line], place: int) -> None:
        """Every line becomes a message, a link, a note, or a problem."""
        feed, copied = self._main.feed, self._copied
        for thread in self.threads:
            thread.draft.bytes_at = batch.bytes_at
        is_main = self._ref.kind == "main"
        for line, number, offset, length in batch.rows():
            kind = line.type
            if kind in _CHAIN:
                source = m.Source(place, number, offset, length)
                if line.is_sidechain and is_main:
                    self._side(line).feed(line, source, line.uuid in copied)
                else:
                    feed(line, source, line.uuid in copied)
            elif kind not in _SILENT:
                self._note(line, m.Source(place, number, offset, length))

    def _note(self, line: Line, source: m.Source) -> None:
        kind = line.type
        if kind == "progress":
            self._main.link(line)
        elif kind == "last-prompt":
            if line.leaf_uuid is not None:
                self._main.point(line.leaf_uuid)
        elif kind == "queue-operation":
            self._main.queue(line, source)
        elif kind in _TITLES:
            self._note_title(line)
        elif line.uuid is not None and line.message is not None:
            self._main.feed(line, source)
        else:
            detail = f"a record of type {kind!r}" if kind else "a record without a type"
            self._main.draft.unknown_record(detail, source)

    def _side(self, line: Line) -> ClaudeParser:
        """The sub-agent a sidechain line of an old file belongs to."""
        parent = line.parent_uuid if isinstance(line.parent_uuid, str) else ""
        thread = self._sides.get(parent)
        if thread is None:
            id = f"{self._ref.id}/{line.uuid}"
            draft = self._make(id, "subagent") or SessionBuilder("claude", id, "subagent", keep=False)
            draft.parent = self._ref.id
            draft.origin = m.Origin(kind="subagent", session=self._ref.id)
            draft.files = self._main.draft.files
            draft.bytes_at = self._main.draft.bytes_at
            thread = ClaudeParser(draft)
            thread.calls.saved = self._main.calls.saved
            self.threads.append(thread)
        if line.uuid is not None:
            self._sides[line.uuid] = thread
        return thread

    def _note_title(self, line: Line) -> None:
        if line.custom_title:
            self._titles["custom"] = line.custom_title
        elif line.ai_title:
            self._titles["ai"] = line.ai_title
        elif line.summary and line.leaf_uuid and self._main.draft.find(line.leaf_uuid) is not None:
            self._titles["summary"] = line.summary

    def finish(self, folder: ClaudeFolder) -> None:
        """Complete what only the last line, or the first, tells."""
        head = folder.head(self._ref.path)
        for thread in self.threads:
            thread.finish()
            thread.draft.project = project_of(head.cwd) if head is not None else None
            thread.draft.git = m.Git(branch=head.git_branch) if head is not None and head.git_branch else None
            thread.draft.title = title_of(thread.task or thread.first_prompt)
        title = next((self._titles[kind] for kind in ("custom", "ai", "summary") if kind in self._titles), None)
        if title is None and version_of(self._main.version) < (2, 1):
            found = [text for leaf, text in folder.summaries.items() if self._main.draft.find(leaf) is not None]
            title = found[-1] if found else None
        self._main.draft.title = title or self._main.draft.title
