"""Reads the sessions of Gemini CLI: their files, their sub-agents, and the prompt log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.sinks import DropMessages
from ...core.timestamps import shifted
from ...io.decode import Damage
from ...io.documents import split_document
from ...io.files import log_of, name_of, read_batches, read_whole, size_of
from .._metadata import choose_title, digest
from ..base import BuilderFactory, Peek, SessionRef, Steps
from .discovery import GeminiFiles, GeminiFolder, GeminiHead, read_head, read_tail
from .parser import GeminiParser
from .schema import MESSAGES, RECORDS, GeminiRecord

_AFTERWARDS = timedelta(minutes=1)


class GeminiSource:
    """Sessions under one `.gemini` folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folder = GeminiFolder(root)

    @property
    def live(self) -> dict[str, m.Status]:
        """Gemini CLI keeps no list of open sessions."""
        return {}

    # --- finding ---

    def refs(self) -> Iterator[SessionRef]:
        """Iterate over all sessions that have a prompt."""
        for id, files in self._folder.sessions.items():
            yield self._ref(id, files)

    def _ref(self, id: str, files: GeminiFiles) -> SessionRef:
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
        """Return the session of a file."""
        head = read_head(path)
        if head is None:
            return None
        files = self._folder.sessions.get(head.session)
        if files is not None and any(known.path == path for known in files.heads):
            return self._ref(head.session, files)
        return self._ref(head.session, GeminiFiles([head]))

    def contains(self, ref: SessionRef) -> bool:
        """Whether the session is in this folder and has a prompt."""
        return ref.id in self._folder.sessions

    def peek(self, ref: SessionRef) -> Peek:
        """Read the beginning and the end of the files of a session."""
        heads = self._heads(ref)
        tails = [read_tail(head) for head in heads]
        title = next((tail.title for tail in reversed(tails) if tail.title), None)
        prompt = next((head.prompt for head in heads if head.prompt), None)
        return Peek(
            title=choose_title(title, prompt),
            project=self._folder.project_of(heads[0]) if heads else None,
            started_at=heads[0].started_at if heads else None,
            ended_at=max((tail.updated_at for tail in tails if tail.updated_at is not None), default=None),
            size=sum(size_of(head.path) for head in heads),
        )

    def _heads(self, ref: SessionRef) -> list[GeminiHead]:
        files = self._folder.sessions.get(ref.id)
        if files is not None and files.first.path == ref.path:
            return files.heads
        return [head for path in (ref.path, *ref.more) if (head := read_head(path)) is not None]

    def has_inline_subagents(self, ref: SessionRef) -> bool:  # noqa: ARG002 - others have to look
        """Never: each sub-agent has its own file."""
        return False

    def fingerprint(self, ref: SessionRef) -> str:
        """Digest the prompts typed until the session ended, its clears, its origin, and its sub-agents."""
        folder = self._folder
        ended = self.peek(ref).ended_at
        typed = folder.typed_mark(ref.id, shifted(ended, _AFTERWARDS) if ended is not None else None)
        return digest((typed, folder.clears.get(ref.id), self._origin(ref), folder.children.get(ref.id, [])))

    # --- reading ---

    def read(self, ref: SessionRef, make: BuilderFactory) -> Steps:
        """Read a session."""
        builder = make(ref.id, ref.kind) or SessionBuilder("gemini", ref.id, ref.kind, DropMessages())
        heads = self._heads(ref)
        parser = GeminiParser(builder, self._folder.typed_in(ref.id) if ref.kind == "main" else None)
        reader = GeminiFileReader(parser)
        for path in (ref.path, *ref.more):
            yield from reader.read(path)
        parser.finish()
        details = builder.details
        details.parent = ref.parent
        details.project = self._folder.project_of(heads[0]) if heads else None
        details.title = choose_title(reader.title, parser.first_prompt)
        details.tip = parser.conversation.tip
        details.tip_rule = "end of the conversation"
        details.origin = self._origin(ref)
        self._add_clears(ref, builder)
        self._add_subagents(ref, parser)
        return [builder]

    def _origin(self, ref: SessionRef) -> m.Origin:
        if ref.kind == "subagent":
            return m.Origin(kind="subagent", session=ref.parent, evidence="folder")
        cleared = self._folder.cleared_from.get(ref.id)
        if cleared is not None:
            return m.Origin(kind="clear", session=cleared, evidence="logs", confidence=0.8)
        return m.Origin(kind="new")

    def _add_clears(self, ref: SessionRef, builder: SessionBuilder) -> None:
        """Add the clears in the prompt log, which replace those that were inferred at the same message."""
        logged = [
            m.ContextClear(
                after_message_index=builder.last_before(at),
                timestamp=at,
                evidence="logs",
                confidence=0.8 if follower else 0.9,
                next_session=follower,
            )
            for at, follower in self._folder.clears.get(ref.id, ())
        ]
        known = {clear.after_message_index for clear in logged}
        inferred = [clear for clear in builder.events.context_clears if clear.after_message_index not in known]
        builder.events.context_clears = inferred + logged

    def _add_subagents(self, ref: SessionRef, parser: GeminiParser) -> None:
        children = dict.fromkeys(self._folder.children.get(ref.id, ()))
        named = {agent.agent_id for agent in parser.calls.agents}
        unnamed = [id for id in children if id not in named]
        for agent in parser.calls.agents:
            child, how = (agent.agent_id, "agentId") if agent.agent_id in children else (None, None)
            if agent.agent_id is None and unnamed:
                child, how = unnamed.pop(0), "folder"
            parser.builder.events.subagents.append(
                m.Subagent(
                    message_index=agent.message,
                    tool_use_id=agent.call_id,
                    agent_id=agent.agent_id or child,
                    session=child,
                    status=agent.status,
                    linked_by=how,
                    agent_type=agent.name,
                )
            )
        for id in unnamed:
            parser.builder.events.subagents.append(
                m.Subagent(message_index=None, tool_use_id=None, agent_id=id, session=id, linked_by="folder")
            )


class GeminiFileReader:
    """Reads the files of a session, in order."""

    def __init__(self, parser: GeminiParser) -> None:
        self._parser = parser
        self._headers = 0
        self.title: str | None = None

    def read(self, path: Path) -> Iterator[None]:
        """Read one file. Messages that another file of the session has too are recognised by their ids."""
        log = log_of(path)
        file = len(self._parser.builder.details.files)
        self._parser.builder.details.files.append(log)
        if path.suffix == ".json":
            self._document(path, file, log)
            yield
        else:
            yield from self._log(path, file, log)

    def _document(self, path: Path, file: int, log: m.LogFile) -> None:
        builder = self._parser.builder
        data = read_whole(path)
        if data is None:
            builder.events.problems.append(m.Problem(reason="unreadable", detail=name_of(path)))
            return
        builder.bytes_at = lambda offset, length: data[offset : offset + length]
        document = split_document(data, "messages")
        log.size, log.lines = len(data), document.lines
        summary = document.head.get("summary")
        self.title = summary if isinstance(summary, str) else self.title
        for damage in document.damages:
            builder.damage(file, damage)
        self._parser.begin_document()
        for element in document.elements:
            for found in MESSAGES.line(element.data, element.location):
                if isinstance(found, Damage):
                    builder.damage(file, found)
                    continue
                message, at = found
                log.records[message.type] = log.records.get(message.type, 0) + 1
                self._parser.message(message, m.Source(file, *at))
        self._parser.end_file()

    def _log(self, path: Path, file: int, log: m.LogFile) -> Iterator[None]:
        builder = self._parser.builder
        for batch in read_batches(path, RECORDS, log):
            builder.bytes_at = batch.bytes_at
            for damage in batch.damages:
                builder.damage(file, damage)
            stamps = 0
            for record, number, offset, length in batch.rows():
                patch = record.set
                if patch is not None and patch.messages is None:
                    # A record with only a time follows every message, so it is handled here.
                    stamps += 1
                    self.title = patch.summary or self.title
                    continue
                kind = self._read_record(record, m.Source(file, number, offset, length))
                log.records[kind] = log.records.get(kind, 0) + 1
            if stamps:
                log.records["$set"] = log.records.get("$set", 0) + stamps
            yield
        self._parser.end_file()

    def _read_record(self, record: GeminiRecord, source: m.Source) -> str:
        parser = self._parser
        if record.id and record.type:
            parser.message(record, source)
            return record.type
        if record.set is not None:
            self.title = record.set.summary or self.title
            parser.replace_all(record.set.messages or [], source)
            return "$set.messages"
        if record.rewind_to is not None:
            parser.rewind(record.rewind_to)
            return "$rewindTo"
        if record.session_id is not None:
            self.title = record.summary or self.title
            parser.header(again=self._headers > 0)
            self._headers += 1
            return "header"
        parser.builder.unknown_record("neither a message nor a change", source)
        return "?"
