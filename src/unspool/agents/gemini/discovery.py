"""Finds the sessions in Gemini CLI's folder, which may have several files each, and reads the prompt logs."""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from ...core import model as m
from ...core.timestamps import parse_moment, shifted
from ...io.decode import Damage, decode_any
from ...io.documents import split_document
from ...io.files import (
    is_beginning,
    is_closed,
    iter_pieces,
    name_of,
    read_end,
    read_whole,
    size_of,
    stem_of,
    while_unchanged,
)
from ...io.listing import folders_in, walk_files
from .._metadata import digest, project_of
from .authors import NOT_TITLES
from .content import parts_of, text_of
from .schema import MESSAGES, RECORDS, TAIL_RECORDS, GeminiMessage, GeminiRecord

_CLEAR = re.compile(r"\s*/(?:clear|new)\b")
_AT_ONCE = timedelta(seconds=1)
_FIRST = datetime.min.replace(tzinfo=UTC)
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
    """The files of one session in the order of their start, without exact copies of a file and of its beginning."""

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
    def texts(self) -> frozenset[str]:
        """The texts of all prompts in the log."""
        return frozenset(entry.text.strip() for entry in self.log)

    @cached_property
    def named(self) -> frozenset[str]:
        """The sessions that the log names."""
        return frozenset(entry.session for entry in self.log if entry.session)

    def mark_until(self, until: datetime | None) -> str:
        """Return a digest of the prompts up to a time, or of all of them."""
        end = bisect_right(self._marks, until, key=itemgetter(0)) if until is not None else len(self._marks)
        return self._marks[end - 1][1] if end else ""

    @cached_property
    def _marks(self) -> list[tuple[datetime, str]]:
        """A digest of all prompts so far at the time of each new one; those without a time come first."""
        found: list[tuple[datetime, str]] = []
        mark, known = "", set[str]()
        for at, text in sorted((entry.at or _FIRST, entry.text) for entry in self.log):
            if text not in known:
                known.add(text)
                mark = digest((mark, text))
                found.append((at, mark))
        return found

    @cached_property
    def files(self) -> list[Path]:
        """All files that may contain a session."""
        return [path for path in walk_files(self.path / "chats") if path.suffix in (".json", ".jsonl")]

    @cached_property
    def heads(self) -> list[GeminiHead]:
        """The heads of all session files."""
        return [head for path in self.files if (head := read_head(path)) is not None]

    def follower(self, at: datetime, session: str) -> str | None:
        """Return the next session that began after a clear and that the prompt log does not name."""
        first = bisect_left(self._starts, shifted(at, -_AT_ONCE), key=itemgetter(0))
        return next((id for _, id in islice(self._starts, first, None) if id != session), None)

    @cached_property
    def _starts(self) -> list[tuple[datetime, str]]:
        """The starts of all sessions with a prompt that the prompt log does not name, the oldest first."""
        return sorted(
            (head.started_at, head.session)
            for head in self.heads
            if head.started_at is not None
            and head.session not in self.named
            and head.prompt is not None
            and head.kind == "main"
        )


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
                ordered = sorted(heads, key=lambda head: (_start(head), head.path.suffix == ".jsonl"))
                sessions[id] = GeminiFiles(_without_copies(ordered) if len(ordered) > 1 else ordered)
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

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """The sub-agents of each session, by its id."""
        found: dict[str, list[str]] = {}
        for id, files in self.sessions.items():
            if files.first.parent is not None:
                found.setdefault(files.first.parent, []).append(id)
        return found

    def typed_in(self, id: str) -> frozenset[str] | None:
        """Return the prompts typed in the project of a session; None if the session did not run in a terminal."""
        texts = [project.texts for project in self._typed.get(id, ())]
        return texts[0].union(*texts[1:]) if texts else None

    def typed_mark(self, id: str, until: datetime | None) -> list[str] | None:
        """Return a digest of these prompts up to a time; None if the session did not run in a terminal."""
        return [project.mark_until(until) for project in self._typed[id]] if id in self._typed else None

    @cached_property
    def _typed(self) -> dict[str, list[ProjectFolder]]:
        """The projects whose prompt log shows that a session ran in a terminal, by session.

        The ids in the log do not show which session a prompt is from: after /clear the log has the old id, after a
        resume a new one.
        """
        found: dict[str, dict[ProjectFolder, None]] = {}
        for project in self.projects:
            for head in project.heads:
                is_typed = head.prompt is not None and head.prompt.strip() in project.texts
                if head.session in project.named or is_typed:
                    found.setdefault(head.session, {})[project] = None
        return {id: list(projects) for id, projects in found.items()}

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
                follower = project.follower(entry.at, session)
                if session not in self.sessions:
                    continue
                found.setdefault(session, []).append((entry.at, follower))
                if follower is not None:
                    current[entry.session] = follower
        return found

    @cached_property
    def cleared_from(self) -> dict[str, str]:
        """The session that was cleared before each session that followed a clear."""
        found: dict[str, str] = {}
        for session, clears in self.clears.items():
            for _, follower in clears:
                if follower is not None:
                    found.setdefault(follower, session)
        return found


def _without_copies(heads: list[GeminiHead]) -> list[GeminiHead]:
    """Leave out logs that contain nothing but the beginning of another one, such as backups.

    Reading one of them again would repeat its rewinds.
    """
    sizes = {head.path: size_of(head.path) for head in heads}
    kept: list[GeminiHead] = []
    for head in sorted(heads, key=lambda head: -sizes[head.path]):
        longer = (other for other in kept if other.started_at == head.started_at)
        if not any(is_beginning(head.path, other.path) for other in longer):
            kept.append(head)
    return [head for head in heads if head in kept]


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
    document = split_document(data, "messages") if data else None
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
