"""Finds the sessions in Gemini CLI's folder, which may have several files each, and reads the prompt logs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ...core import model as m
from ...core.timestamps import parse_moment
from ...io.decode import Damage, decode_any
from ...io.documents import take_apart
from ...io.files import is_closed, iter_pieces, name_of, read_end, read_whole, stem_of, while_unchanged
from ...io.listing import folders_in, walk_files
from .._metadata import project_of
from .authors import NOT_TITLES
from .content import parts_of, text_of
from .schema import MESSAGES, RECORDS, TAIL_RECORDS, GeminiMessage, GeminiRecord

_CLEAR = re.compile(r"\s*/(?:clear|new)\b")
_HEAD_SIZE = 1 << 16
_TAIL_SIZE = 1 << 14


class GeminiHead(NamedTuple):
    """The facts in the first records of a file."""

    path: Path
    session: str
    started_at: datetime | None
    project_hash: str | None
    kind: m.Kind
    prompt: str | None
    """The first prompt; a session with no prompt in any of its files is left out."""
    parent: str | None
    """The session whose folder it is in, if it is a sub-agent."""
    title: str | None = None
    updated_at: datetime | None = None
    """Only set for a document; an append-only log has it in its last lines."""


class GeminiPrompt(NamedTuple):
    """An entry of the prompt log."""

    at: datetime | None
    text: str
    session: str | None


def _prompt_of(entry: dict[str, object]) -> GeminiPrompt:
    """Convert an entry of `logs.json`."""
    at = parse_moment(entry.get("timestamp"))
    return GeminiPrompt(at, _text(entry.get("message")) or "", _text(entry.get("sessionId")))


class GeminiFiles(NamedTuple):
    """The files of one session in the order of their start, including copies of a file."""

    heads: list[GeminiHead]

    @property
    def first(self) -> GeminiHead:
        """The oldest file."""
        return self.heads[0]


class ProjectFolder:
    """One project's folder below `tmp`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def root(self) -> str | None:
        """The directory of the project, if the folder names it."""
        data = read_whole(self.path / ".project_root")
        return data.decode("utf-8", "replace").strip() or None if data else None

    @cached_property
    def log(self) -> list[GeminiPrompt]:
        """All prompts that were typed in a terminal in this project."""
        entries = decode_any(read_whole(self.path / "logs.json") or b"")
        return [_prompt_of(entry) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []

    @cached_property
    def files(self) -> list[Path]:
        """All files that may contain a session."""
        return [path for path in walk_files(self.path / "chats") if path.suffix in (".json", ".jsonl")]

    @cached_property
    def heads(self) -> list[GeminiHead]:
        """The heads of all session files."""
        return [head for path in self.files if (head := read_head(path)) is not None]


class GeminiFolder:
    """The sessions in one `.gemini` folder. All lookups are cached."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def projects(self) -> list[ProjectFolder]:
        """All project folders; the hashed ones of older versions come first."""
        paths = folders_in(self.root / "tmp")
        return [ProjectFolder(path) for path in sorted(paths, key=lambda path: (len(path.name) != 64, path.name))]

    @cached_property
    def sessions(self) -> dict[str, GeminiFiles]:
        """All sessions with a prompt, by id."""
        found: dict[str, list[GeminiHead]] = {}
        for project in self.projects:
            for head in project.heads:
                found.setdefault(head.session, []).append(head)
        sessions = {}
        for id, heads in sorted(found.items(), key=lambda item: _start(item[1][0])):
            if any(head.prompt is not None for head in heads):
                sessions[id] = GeminiFiles(sorted(heads, key=lambda head: (_start(head), head.path.suffix == ".jsonl")))
        return sessions

    @cached_property
    def roots(self) -> dict[str, str]:
        """Project directories by the name of their folder below `tmp`, and by their hash."""
        found: dict[str, str] = {}
        listed = decode_any(read_whole(self.root / "projects.json") or b"")
        projects = listed.get("projects") if isinstance(listed, dict) else None
        for path, name in (projects or {}).items() if isinstance(projects, dict) else ():
            found[str(name)] = path
        for project in self.projects:
            if project.root is not None:
                found[name_of(project.path.name)] = project.root
        for head in (head for project in self.projects for head in project.heads):
            name = _project_name(head.path)
            if head.project_hash is not None and name in found:
                found[head.project_hash] = found[name]
        return found

    def project_of(self, head: GeminiHead) -> m.Project | None:
        """Return the project of a session; if its directory is unknown, one with the name of its folder below `tmp`."""
        name = _project_name(head.path)
        path = self.roots.get(head.project_hash or "") or self.roots.get(name)
        if path is not None:
            return project_of(path)
        return m.Project(None, name[:8] if len(name) == 64 else name) if name else None

    def typed_in(self, id: str) -> frozenset[str] | None:
        """Return the prompts typed in the project of a session; None if the session did not run in a terminal."""
        texts = self._typed.get(id)
        return frozenset(texts) if texts else None

    def typed_by(self, id: str, until: datetime | None) -> list[str] | None:
        """Return the prompts in all prompt logs up to a time; None if the session did not run in a terminal."""
        if id not in self._typed:
            return None
        entries = (entry for project in self.projects for entry in project.log)
        return sorted({entry.text for entry in entries if until is None or entry.at is None or entry.at <= until})

    @cached_property
    def _typed(self) -> dict[str, set[str]]:
        """The prompts typed in the project of each session that ran in a terminal.

        The ids in the log do not show which session a prompt is from: after /clear the log has the old id, after a
        resume a new one.
        """
        found: dict[str, set[str]] = {}
        for project in self.projects:
            texts = {entry.text.strip() for entry in project.log}
            ids = {entry.session for entry in project.log if entry.session}
            for head in project.heads:
                is_typed = head.prompt is not None and head.prompt.strip() in texts
                if head.session in ids or is_typed:
                    found.setdefault(head.session, set()).update(texts)
        return found

    # --- clears ---

    @cached_property
    def clears(self) -> dict[str, list[tuple[datetime, str | None]]]:
        """Every /clear and /new, by the session it was typed in, with the session that followed, if any."""
        found: dict[str, list[tuple[datetime, str | None]]] = {}
        seen: set[tuple[datetime, str | None]] = set()
        for project in self.projects:
            current: dict[str, str] = {}
            for entry in project.log:
                key = entry.at, entry.session
                if entry.at is None or entry.session is None or not _CLEAR.match(entry.text) or key in seen:
                    continue
                seen.add((entry.at, entry.session))
                session = current.get(entry.session, entry.session)
                follower = self._follower(project, entry.at, session)
                if session not in self.sessions:
                    continue
                found.setdefault(session, []).append((entry.at, follower))
                if follower is not None:
                    current[entry.session] = follower
        return found

    def _follower(self, project: ProjectFolder, at: datetime, session: str) -> str | None:
        """Return the next session that began after a clear and that the prompt log does not name."""
        named = {entry.session for entry in project.log}
        later = [
            (head.started_at, head.session)
            for head in project.heads
            if head.started_at is not None
            and head.started_at >= at - timedelta(seconds=1)
            and head.session != session
            and head.session not in named
            and head.prompt is not None
            and head.kind == "main"
        ]
        return min(later)[1] if later else None


# --- heads -----------------------------------------------------------------------------------------------------------


@while_unchanged
def read_head(path: Path) -> GeminiHead | None:
    """Read the beginning of a session file; None if it contains no session.

    A file without read permission counts as a session, so that reading it reports the problem.
    """
    if is_closed(path):
        return GeminiHead(path, stem_of(path), None, None, "main", "", _parent(path))
    if path.suffix == ".json":
        return _document_head(path)
    return _log_head(path)


class GeminiTail(NamedTuple):
    """The facts in the last lines of an append-only log."""

    updated_at: datetime | None
    title: str | None


def read_tail(head: GeminiHead) -> GeminiTail:
    """Read the end of a log; the head of a document already has these facts."""
    if head.updated_at is not None:
        return GeminiTail(head.updated_at, head.title)
    block = read_end(head.path, _TAIL_SIZE)
    records = TAIL_RECORDS.batch(block).records if block is not None else []
    times = [line.timestamp or (line.set.last_updated if line.set is not None else None) for line in records]
    titles = [line.set.summary for line in records if line.set is not None and line.set.summary]
    updated_at = max((time for time in times if time is not None), default=None)
    return GeminiTail(updated_at, titles[-1] if titles else head.title)


def _log_head(path: Path) -> GeminiHead | None:
    """Read a log up to the first prompt, which may come after a long context and many notes.

    If the header is damaged, the file name serves as the id of the session.
    """
    head: GeminiHead | None = None
    for piece in iter_pieces(path, RECORDS, _HEAD_SIZE):
        for line in piece:
            header = _header_of(path, line) if head is None else None
            head = header or _with_line(head or _nameless(path), line)
        if head is None or head.prompt is not None:
            break
    is_session = head is not None and (head.project_hash is not None or head.prompt is not None)
    return head if is_session else None


def _nameless(path: Path) -> GeminiHead:
    kind: m.Kind = "subagent" if _parent(path) is not None else "main"
    return GeminiHead(path, stem_of(path), None, None, kind, None, _parent(path))


def _header_of(path: Path, line: GeminiRecord) -> GeminiHead | None:
    if line.session_id is None and line.project_hash is None:
        return None
    kind: m.Kind = "subagent" if line.kind == "subagent" else "main"
    return GeminiHead(
        path, line.session_id or stem_of(path), line.start_time, line.project_hash, kind, None, _parent(path)
    )


def _with_line(head: GeminiHead, line: GeminiRecord) -> GeminiHead:
    """Return a head with the title and the prompt in a line, if it has them."""
    title, prompt, replaced = head.title, head.prompt, None
    if line.set is not None:
        title, replaced = line.set.summary or title, line.set.messages
    if prompt is None:
        prompt = next(_typed_in([line] if line.id else replaced or ()), None)
    # Most lines have neither, so no copy is created.
    is_same = title is head.title and prompt is head.prompt
    return head if is_same else head._replace(title=title, prompt=prompt)


def _document_head(path: Path) -> GeminiHead | None:
    data = read_whole(path)
    document = take_apart(data, "messages") if data else None
    given = document.head if document is not None else {}
    # Some documents have `id` instead.
    session = given.get("sessionId", given.get("id"))
    if not isinstance(session, str) or not session:
        session = stem_of(path)
    if document is None or not (document.elements or session != stem_of(path)):
        return None
    found = (item for element in document.elements for item in MESSAGES.line(element.data, element.location))
    messages = (item[0] for item in found if not isinstance(item, Damage))
    kind: m.Kind = "subagent" if given.get("kind") == "subagent" or _parent(path) is not None else "main"
    return GeminiHead(
        path=path,
        session=session,
        started_at=parse_moment(given.get("startTime")),
        project_hash=_text(given.get("projectHash")),
        kind=kind,
        prompt=next(_typed_in(messages), None),
        parent=_parent(path),
        title=_text(given.get("summary")),
        updated_at=parse_moment(given.get("lastUpdated")),
    )


def _typed_in(messages: Iterable[GeminiMessage]) -> Iterator[str]:
    """Iterate over the prompts among some messages."""
    for message in messages:
        if message.type != "user":
            continue
        text = next((part.text for part in parts_of(message.content) if part.text), "")
        if text and not text.startswith(NOT_TITLES):
            yield text_of(message, shown=True)


def _parent(path: Path) -> str | None:
    """Return the session that started a sub-agent, whose folder is named after it; None for other files."""
    return name_of(path.parent.name) if path.parent.parent.name == "chats" else None


def _project_name(path: Path) -> str:
    above, found, _ = f"{path.parent}{os.sep}".rpartition(f"{os.sep}chats{os.sep}")
    return name_of(above.rpartition(os.sep)[2]) if found else ""


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _start(head: GeminiHead) -> float:
    return head.started_at.timestamp() if head.started_at is not None else 0.0
