"""What lies in Gemini CLI's folder: sessions, which may be spread over several files, and what was typed."""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ...core import model as m
from ...core.timestamps import parse_moment
from ...io.decode import Damage, decode_any
from ...io.documents import take_apart
from ...io.files import is_closed, read_end, read_start, read_whole, while_unchanged
from ...io.lines import Block
from .._metadata import project_of
from .schema import LINES, MESSAGES, TAIL_LINES, Message

_CLEAR = re.compile(r"\s*/(?:clear|new)\b")
_NOT_TYPED = ("<session_context>", "<state_snapshot>", "<hook_context>", "System: ", "I ran the following shell")
_HEAD_SIZE = 1 << 16
_TAIL_SIZE = 1 << 14


class Head(NamedTuple):
    """What the first records of a file tell."""

    path: Path
    session: str
    started_at: datetime | None
    project_hash: str | None
    kind: m.Kind
    prompt: str | None
    """First words of a person; a file without any is only a stub."""
    parent: str | None
    """Of a sub-agent: the session whose folder it lies in."""
    title: str | None = None
    updated_at: datetime | None = None
    """Of a single document; an append log says it in its last lines."""


class Typed(NamedTuple):
    """An entry of the prompt log."""

    at: datetime | None
    text: str
    session: str | None


def _typed_of(entry: dict[str, object]) -> Typed:
    """An entry of `logs.json`."""
    at = parse_moment(entry.get("timestamp"))
    return Typed(at, _text(entry.get("message")) or "", _text(entry.get("sessionId")))


class SessionFiles(NamedTuple):
    """The files of one session, in the order in which they were begun; copies of a file are in it too."""

    heads: list[Head]

    @property
    def first(self) -> Head:
        """The file that was begun first."""
        return self.heads[0]


class ProjectFolder:
    """One project's folder below `tmp`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def root(self) -> str | None:
        """The project, where the folder names it."""
        data = read_whole(self.path / ".project_root")
        return data.decode("utf-8", "replace").strip() or None if data else None

    @cached_property
    def log(self) -> list[Typed]:
        """Everything that was typed in a terminal in this project."""
        entries = decode_any(read_whole(self.path / "logs.json") or b"")
        return [_typed_of(entry) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []

    @cached_property
    def heads(self) -> list[Head]:
        """The beginnings of all session files."""
        found: list[Head] = []
        for parent, folders, names in os.walk(self.path / "chats"):
            folders.sort()
            for name in sorted(names):
                path = Path(parent, name)
                if path.suffix in (".json", ".jsonl") and (head := read_head(path)) is not None:
                    found.append(head)
        return found


class GeminiFolder:
    """Sessions under one `.gemini` folder. Everything is looked up once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def projects(self) -> list[ProjectFolder]:
        """All project folders; the hashed ones of older versions come first."""
        try:
            with os.scandir(self.root / "tmp") as entries:
                paths = [Path(entry.path) for entry in entries if entry.is_dir()]
        except OSError:
            return []
        return [ProjectFolder(path) for path in sorted(paths, key=lambda path: (len(path.name) != 64, path.name))]

    @cached_property
    def sessions(self) -> dict[str, SessionFiles]:
        """All sessions by id; what holds no words of a person is none."""
        found: dict[str, list[Head]] = {}
        for project in self.projects:
            for head in project.heads:
                found.setdefault(head.session, []).append(head)
        sessions = {}
        for id, heads in sorted(found.items(), key=lambda item: _start(item[1][0])):
            if any(head.prompt is not None for head in heads):
                sessions[id] = SessionFiles(
                    sorted(heads, key=lambda head: (_start(head), head.path.suffix == ".jsonl"))
                )
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
                found[project.path.name] = project.root
        for head in (head for project in self.projects for head in project.heads):
            name = _project_name(head.path)
            if head.project_hash is not None and name in found:
                found[head.project_hash] = found[name]
        return found

    def project_of(self, head: Head) -> m.Project | None:
        """The project a session worked in, or at least the folder that stands for it."""
        name = _project_name(head.path)
        path = self.roots.get(head.project_hash or "") or self.roots.get(name)
        if path is not None:
            return project_of(path)
        return m.Project(None, name[:8] if len(name) == 64 else name) if name else None

    def typed_in(self, id: str) -> frozenset[str] | None:
        """What was typed in a session, by the prompt log; None when it did not run in a terminal."""
        texts = self._typed.get(id)
        return frozenset(texts) if texts else None

    def typed_by(self, id: str, until: datetime | None) -> list[str] | None:
        """What the prompt log held by a time; None when the session did not run in a terminal."""
        if id not in self._typed:
            return None
        entries = (entry for project in self.projects for entry in project.log)
        return sorted({entry.text for entry in entries if until is None or entry.at is None or entry.at <= until})

    @cached_property
    def _typed(self) -> dict[str, set[str]]:
        """What was typed in the project of each session that ran in a terminal.

        After /clear the log goes on under the old id, after a resume under a new one: the id tells nothing.
        """
        found: dict[str, set[str]] = {}
        for project in self.projects:
            everything = {entry.text.strip() for entry in project.log}
            ids = {entry.session for entry in project.log if entry.session}
            for head in project.heads:
                near = head.prompt is not None and head.prompt.strip() in everything
                if head.session in ids or near:
                    found.setdefault(head.session, set()).update(everything)
        return found

    # --- clears ---

    @cached_property
    def clears(self) -> dict[str, list[tuple[datetime, str | None]]]:
        """Every /clear by the session it was typed in, with the session that followed, if it got a new one."""
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
        """The next session that began after a clear and that the prompt log does not name."""
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
def read_head(path: Path) -> Head | None:
    """Read the beginning of a session file; None when it is none.

    What we may not read may be a session, and reading it says so.
    """
    if is_closed(path):
        return Head(path, path.stem, None, None, "main", "", _parent(path))
    if path.suffix == ".json":
        return _document_head(path)
    block = read_start(path, _HEAD_SIZE)
    if block is None:
        return None
    return _log_head(path, block)


class Tail(NamedTuple):
    """What the last lines of an append log tell."""

    updated_at: datetime | None
    title: str | None


def read_tail(head: Head) -> Tail:
    """Read the end of a file, unless its beginning told everything: a document does."""
    if head.updated_at is not None:
        return Tail(head.updated_at, head.title)
    block = read_end(head.path, _TAIL_SIZE)
    records = TAIL_LINES.batch(block).records if block is not None else []
    times = [line.timestamp or (line.set.last_updated if line.set is not None else None) for line in records]
    titles = [line.set.summary for line in records if line.set is not None and line.set.summary]
    updated_at = max((time for time in times if time is not None), default=None)
    return Tail(updated_at, titles[-1] if titles else head.title)


def _log_head(path: Path, block: Block) -> Head | None:
    head: Head | None = None
    title = None
    for line in LINES.batch(block).records:
        if line.session_id is not None and line.project_hash is not None and head is None:
            kind: m.Kind = "subagent" if line.kind == "subagent" else "main"
            head = Head(path, line.session_id, line.start_time, line.project_hash, kind, None, _parent(path))
        elif line.set is not None:
            title = line.set.summary or title
        if head is not None and head.prompt is None:
            messages: list[Message] = [line] if line.id else line.set.messages or [] if line.set is not None else []
            head = head._replace(prompt=_first_words(messages))
    return head._replace(title=title) if head is not None else None


def _document_head(path: Path) -> Head | None:
    data = read_whole(path)
    document = take_apart(data, "messages") if data else None
    session = document.head.get("sessionId") if document is not None else None
    if document is None or not isinstance(session, str):
        return None
    messages: list[Message] = []
    for element in document.elements[:20]:
        messages += [item[0] for item in MESSAGES.line(element.data, element.place) if not isinstance(item, Damage)]
    given = document.head
    kind: m.Kind = "subagent" if given.get("kind") == "subagent" or _parent(path) is not None else "main"
    return Head(
        path=path,
        session=session,
        started_at=parse_moment(given.get("startTime")),
        project_hash=_text(given.get("projectHash")),
        kind=kind,
        prompt=_first_words(messages),
        parent=_parent(path),
        title=_text(given.get("summary")),
        updated_at=parse_moment(given.get("lastUpdated")),
    )


def _first_words(messages: list[Message]) -> str | None:
    for message in messages:
        if message.type != "user":
            continue
        content = message.content
        if isinstance(content, str):
            text = content
        else:
            parts = content if isinstance(content, list) else [content] if content is not None else []
            text = next((part.text for part in parts if part.text), "")
        if text and not text.startswith(_NOT_TYPED):
            return text
    return None


def _parent(path: Path) -> str | None:
    """Sub-agents lie in a folder named after the session that started them."""
    return path.parent.name if path.parent.parent.name == "chats" else None


def _project_name(path: Path) -> str:
    for parent in path.parents:
        if parent.name == "chats":
            return parent.parent.name
    return ""


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _start(head: Head) -> float:
    return head.started_at.timestamp() if head.started_at is not None else 0.0
