"""Reading a session of Gemini CLI: all files it is spread over, its sub-agents, and the prompt log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from ...core import model as m
from ...core.builder import SessionBuilder
from ...io.decode import Damage
from ...io.documents import take_apart
from ...io.files import log_of, name_of, read_batches, read_whole, size_of
from .._metadata import digest, title_of
from ..base import BuilderFactory, Peek, SessionRef, Steps
from .discovery import GeminiFolder, Head, SessionFiles, read_head, read_tail
from .parser import GeminiParser
from .schema import LINES, MESSAGES, Line

_AFTERWARDS = timedelta(minutes=1)


class GeminiSource:
    """Sessions under one `.gemini` folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folder = GeminiFolder(root)

    @property
    def live(self) -> dict[str, m.Status]:
        """It keeps no list of the sessions that are open."""
        return {}

    # --- finding ---

    def refs(self) -> Iterator[SessionRef]:
        """All sessions, each once; stubs are none."""
        for id, files in self._folder.sessions.items():
            yield self._ref(id, files)

    def _ref(self, id: str, files: SessionFiles) -> SessionRef:
        first = files.first
        return SessionRef(
            agent="gemini",
            id=id,
            kind=first.kind,
            root=self.root,
            path=first.path,
            more=tuple(head.path for head in files.heads[1:]),
            parent=first.parent,
        )

    def ref(self, path: Path) -> SessionRef | None:
        """The session of a file."""
        head = read_head(path)
        if head is None:
            return None
        files = self._folder.sessions.get(head.session)
        if files is not None and any(known.path == path for known in files.heads):
            return self._ref(head.session, files)
        return self._ref(head.session, SessionFiles([head]))

    def lists(self, ref: SessionRef) -> bool:
        """Whether somebody has said something in it."""
        return ref.id in self._folder.sessions

    def peek(self, ref: SessionRef) -> Peek:
        """The beginning of a session."""
        heads = self._heads(ref)
        tails = [read_tail(head) for head in heads]
        title = next((tail.title for tail in reversed(tails) if tail.title), None)
        prompt = next((head.prompt for head in heads if head.prompt), None)
        return Peek(
            title=title_of(title) or title_of(prompt),
            project=self._folder.project_of(heads[0]) if heads else None,
            started_at=heads[0].started_at if heads else None,
            ended_at=max((tail.updated_at for tail in tails if tail.updated_at is not None), default=None),
            size=sum(size_of(head.path) for head in heads),
        )

    def _heads(self, ref: SessionRef) -> list[Head]:
        files = self._folder.sessions.get(ref.id)
        if files is not None and files.first.path == ref.path:
            return files.heads
        return [head for path in (ref.path, *ref.more) if (head := read_head(path)) is not None]

    def has_inline_subagents(self, ref: SessionRef) -> bool:  # noqa: ARG002 - others have to look
        """Never: each has a chat of its own."""
        return False

    def around(self, ref: SessionRef) -> str:
        """What was typed while it ran, its clears, where it came from, and its sub-agents."""
        folder = self._folder
        ended = self.peek(ref).ended_at
        typed = folder.typed_by(ref.id, ended + _AFTERWARDS if ended is not None else None)
        children = [id for id, files in folder.sessions.items() if files.first.parent == ref.id]
        return digest((typed, folder.clears.get(ref.id), self._origin(ref), children))

    # --- reading ---

    def read(self, ref: SessionRef, make: BuilderFactory) -> Steps:
        """Read a session."""
        draft = make(ref.id, ref.kind) or SessionBuilder("gemini", ref.id, ref.kind, keep=False)
        heads = self._heads(ref)
        thread = GeminiParser(draft, self._folder.typed_in(ref.id) if ref.kind == "main" else None)
        reading = _Reading(thread)
        for path in (ref.path, *ref.more):
            yield from reading.add(path)
        thread.finish()
        draft.parent = ref.parent
        draft.project = self._folder.project_of(heads[0]) if heads else None
        draft.title = reading.title or title_of(thread.first_prompt)
        draft.tip = thread.tip
        draft.tip_rule = "end of the conversation"
        draft.origin = self._origin(ref)
        self._add_clears(ref, draft)
        self._add_subagents(ref, thread)
        return [draft]

    def _origin(self, ref: SessionRef) -> m.Origin:
        if ref.kind == "subagent":
            return m.Origin(kind="subagent", session=ref.parent, evidence="folder")
        for session, clears in self._folder.clears.items():
            if any(follower == ref.id for _, follower in clears):
                return m.Origin(kind="clear", session=session, evidence="logs", confidence=0.8)
        return m.Origin(kind="new")

    def _add_clears(self, ref: SessionRef, draft: SessionBuilder) -> None:
        for at, follower in self._folder.clears.get(ref.id, ()):
            draft.clears.append(
                m.ContextClear(
                    after_message_index=draft.last_before(at),
                    timestamp=at,
                    evidence="logs",
                    confidence=0.8 if follower else 0.9,
                    next_session=follower,
                )
            )

    def _add_subagents(self, ref: SessionRef, thread: GeminiParser) -> None:
        children = [id for id, files in self._folder.sessions.items() if files.first.parent == ref.id]
        named = {agent.agent_id for agent in thread.calls.agents}
        unnamed = [id for id in children if id not in named]
        for agent in thread.calls.agents:
            child, how = (agent.agent_id, "agentId") if agent.agent_id in children else (None, None)
            if agent.agent_id is None and unnamed:
                child, how = unnamed.pop(0), "folder"
            thread.draft.subagents.append(
                m.Subagent(
                    message_index=agent.message, tool_use_id=agent.call_id, agent_id=agent.agent_id or child,
                    session=child, status=agent.status, linked_by=how, agent_type=agent.name,
                )
            )  # fmt: skip
        for id in unnamed:
            thread.draft.subagents.append(
                m.Subagent(message_index=None, tool_use_id=None, agent_id=id, session=id, linked_by="folder")
            )


class _Reading:
    """The files of a session, in order."""

    def __init__(self, thread: GeminiParser) -> None:
        self._thread = thread
        self._headers = 0
        self.title: str | None = None

    def add(self, path: Path) -> Iterator[None]:
        """Read one file. What another file of the session said already is recognised by its ids."""
        log = log_of(path)
        place = len(self._thread.draft.files)
        self._thread.draft.files.append(log)
        if path.suffix == ".json":
            self._document(path, place, log)
            yield
        else:
            yield from self._log(path, place, log)

    def _document(self, path: Path, place: int, log: m.LogFile) -> None:
        draft = self._thread.draft
        data = read_whole(path)
        if data is None:
            draft.problems.append(m.Problem(reason="unreadable", detail=name_of(path)))
            return
        draft.bytes_at = lambda offset, length: data[offset : offset + length]
        document = take_apart(data, "messages")
        log.size, log.lines = len(data), data.count(b"\n") + 1
        summary = document.head.get("summary")
        self.title = summary if isinstance(summary, str) else self.title
        for damage in document.damages:
            draft.damage(place, damage)
        for element in document.elements:
            for found in MESSAGES.line(element.data, element.place):
                if isinstance(found, Damage):
                    draft.damage(place, found)
                    continue
                message, at = found
                log.records[message.type] = log.records.get(message.type, 0) + 1
                self._thread.message(message, m.Source(place, *at))
        self._thread.end_file()

    def _log(self, path: Path, place: int, log: m.LogFile) -> Iterator[None]:
        draft = self._thread.draft
        for batch in read_batches(path, LINES, log):
            draft.bytes_at = batch.bytes_at
            for damage in batch.damages:
                draft.damage(place, damage)
            stamps = 0
            for line, number, offset, length in batch.rows():
                patch = line.set
                if patch is not None and patch.messages is None:
                    # Every message is followed by such a line, which says when.
                    stamps += 1
                    self.title = patch.summary or self.title
                    continue
                kind = self._take(line, m.Source(place, number, offset, length))
                log.records[kind] = log.records.get(kind, 0) + 1
            if stamps:
                log.records["$set"] = log.records.get("$set", 0) + stamps
            yield
        self._thread.end_file()

    def _take(self, line: Line, source: m.Source) -> str:
        thread = self._thread
        if line.id and line.type:
            thread.message(line, source)
            return line.type
        if line.set is not None:
            self.title = line.set.summary or self.title
            thread.replace_all(line.set.messages or [], source)
            return "$set.messages"
        if line.rewind_to is not None:
            thread.rewind(line.rewind_to)
            return "$rewindTo"
        if line.session_id is not None:
            self.title = line.summary or self.title
            thread.header(again=self._headers > 0)
            self._headers += 1
            return "header"
        thread.draft.unknown_record("neither a message nor a change", source)
        return "?"
