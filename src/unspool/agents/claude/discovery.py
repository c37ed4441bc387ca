"""Finds the sessions in Claude Code's folder by listing it and reading the first lines of its files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec

from ...core import model as m
from ...core.timestamps import parse_moment
from ...io.decode import decode_any
from ...io.files import (
    is_closed,
    log_of,
    name_of,
    read_batches,
    read_blocks,
    read_end,
    read_start,
    read_whole,
    size_of,
    stem_of,
    while_unchanged,
)  # fmt: skip
from ...io.lines import Block, block_of
from ...io.listing import files_in, folders_in
from .outcomes import MARKER, TOOL_MARKER
from .plans import is_marked, is_plan, session_in
from .schema import HEAD_RECORDS, HISTORY, RECORDS, TIMES, AgentMeta, HeadRecord

_CLEAR = re.compile(r"\s*/(?:clear|reset|new)\b")
_CLEAR_LINE = "<command-name>/clear</command-name>"
_FIRST_LOOK = 1 << 14
_HEAD_SIZE = 1 << 16
_TAIL_SIZE = 1 << 15
_USER = b'"type":"user"'
_ASSISTANT = b'"type":"assistant"'
_SIDECHAIN = b'"isSidechain":true'
_AGENT_PROGRESS = b'"type":"agent_progress"'
_CLEAR_HOOK = b'"hookName":"SessionStart:clear"'
AGENT_FILE = re.compile(r"agent-(?P<id>.+)\.jsonl$")


class ClaudeHead(NamedTuple):
    """What the first lines of a session file say."""

    path: Path
    session: str | None = None
    """Session that its first message names."""
    first_uuid: str | None = None
    started_at: datetime | None = None
    version: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    prompt: str | None = None
    """The first prompt, or the task of a sub-agent."""
    prompt_at: datetime | None = None
    clear_at: datetime | None = None
    """When /clear started the session."""
    cleared_by: str | None = None
    """The id of the message with the `/clear` or the plan that it starts with."""
    plan_at: datetime | None = None
    """When it started with a plan that was approved in another session."""
    plan_session: str | None = None
    """That session, if the message with the plan names it."""
    is_plan_marked: bool = False
    """Whether its record, or a hook before it, says that the agent passed on a plan after a clear."""
    slug: str | None = None
    """Name of the plan file, which a session that continues from the plan has too."""
    forked_from: str | None = None
    """Named by its copied lines (2.1.3xx, /branch)."""
    process_session: str | None = None
    """Session the process began with, where it is not this one (2.1.3xx)."""
    lists: bool = False
    """Its first prompt is a list of blocks: 2.0.x copies strings so."""

    @property
    def is_warm_up(self) -> bool:
        """Whether it is one of the two agents that 2.0.x starts to warm a cache."""
        return self.prompt == "Warmup"


class ClaudeFiles(NamedTuple):
    """The files of one session. 1.0.x put what follows a resume into a new file, under the old session's id."""

    head: ClaudeHead
    more: tuple[Path, ...] = ()


class AgentFile(NamedTuple):
    """A sub-agent's file and what is known of it."""

    path: Path
    id: str
    head: ClaudeHead
    meta: AgentMeta

    @property
    def is_top(self) -> bool:
        """Started by the session itself, not by another sub-agent."""
        return self.meta.parent_agent_id is None and (self.meta.spawn_depth or 1) <= 1


class ClaudePrompt(NamedTuple):
    """An entry of the prompt history."""

    at: datetime
    text: str
    project: str | None
    session: str | None


class ClaudeFolder:
    """One project's folder of session files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._heads: dict[Path, ClaudeHead | None] = {}

    @cached_property
    def files(self) -> list[Path]:
        """All logs directly in the folder."""
        return _listed(self.path, ".jsonl")

    def head(self, path: Path) -> ClaudeHead | None:
        """Return the head of a file; None if it has no conversation."""
        if path not in self._heads:
            self._heads[path] = read_head(path)
        return self._heads[path]

    @cached_property
    def sessions(self) -> dict[str, ClaudeFiles]:
        """All sessions by id, with their files."""
        own: dict[str, ClaudeHead] = {}
        continued: dict[str, list[ClaudeHead]] = {}
        for path in self.files:
            if AGENT_FILE.match(path.name) or (head := self.head(path)) is None:
                continue
            session = session_of(head)
            if session == stem_of(path):
                own[session] = head
            else:
                continued.setdefault(session, []).append(head)
        for session, heads in continued.items():
            heads.sort(key=_start)
            if session not in own:
                own[session] = heads.pop(0)
        return {
            session: ClaudeFiles(head, tuple(more.path for more in continued.get(session, ())))
            for session, head in own.items()
        }

    @cached_property
    def subfolders(self) -> dict[str, Path]:
        """Folders in it, by their names: some sessions have one."""
        return {name_of(folder.name): folder for folder in folders_in(self.path)}

    @cached_property
    def agents(self) -> dict[str, list[AgentFile]]:
        """Sub-agents by the session that started them; warm-ups left out."""
        found: dict[str, list[AgentFile]] = {}
        for path in self.files:
            self._add_agent(found, path, None)
        for name, path in self.nested:
            self._add_agent(found, path, name)
        return found

    @cached_property
    def nested(self) -> list[tuple[str, Path]]:
        """Files of sub-agents in the folders of sessions, each with its session."""
        folders = self.subfolders.items()
        return [(name, path) for name, folder in folders for path in _agent_paths(folder / "subagents")]

    def _add_agent(self, found: dict[str, list[AgentFile]], path: Path, session: str | None) -> None:
        name = AGENT_FILE.match(path.name)
        head = self.head(path) if name else None
        if name and head and not head.is_warm_up and (session := session or head.session):
            found.setdefault(session, []).append(AgentFile(path, name_of(name["id"]), head, _meta(path)))

    @cached_property
    def agent_copies(self) -> dict[tuple[str, str | None], list[tuple[str, AgentFile]]]:
        """Sub-agents by id and first message, each with its session; those that share both are copies of one."""
        found: dict[tuple[str, str | None], list[tuple[str, AgentFile]]] = {}
        for session, files in self.agents.items():
            for file in files:
                found.setdefault((file.id, file.head.first_uuid), []).append((session, file))
        return found

    @cached_property
    def by_first_uuid(self) -> dict[str, list[str]]:
        """Sessions by their first message; of those that share it, one is a copy of the other."""
        found: dict[str, list[str]] = {}
        for id, files in self.sessions.items():
            if files.head.first_uuid is not None:
                found.setdefault(files.head.first_uuid, []).append(id)
        return found

    @cached_property
    def summaries(self) -> dict[str, str]:
        """Titles that older versions put into files of their own, by the message they sum up."""
        found = {}
        for path in self.files:
            if self.head(path) is None and (block := read_start(path, _HEAD_SIZE)) is not None:
                for line in RECORDS.batch(block).records:
                    if line.type == "summary" and line.leaf_uuid and line.summary:
                        found[line.leaf_uuid] = line.summary
        return found

    @cached_property
    def ends(self) -> dict[str, datetime]:
        """When each session was last written to, by its last lines."""
        found = {}
        for id, files in self.sessions.items():
            times = [time for path in (files.head.path, *files.more) if (time := read_end_time(path))]
            if times:
                found[id] = max(times)
        return found

    def last_before(self, at: datetime, other_than: str) -> str | None:
        """Return the last session that was active before a time."""
        earlier = [(end, id) for id, end in self.ends.items() if end <= at and id != other_than]
        return max(earlier)[1] if earlier else None


class Surroundings:
    """What other files in the agent's folder say about its sessions. Everything is looked up once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders: dict[Path, ClaudeFolder] = {}

    def folder(self, path: Path) -> ClaudeFolder:
        """A project's folder."""
        if path not in self._folders:
            self._folders[path] = ClaudeFolder(path)
        return self._folders[path]

    def folders(self) -> Iterator[ClaudeFolder]:
        """All project folders."""
        for path in folders_in(self.root / "projects"):
            yield self.folder(path)

    def folder_of(self, path: Path) -> ClaudeFolder:
        """The project folder a session or sub-agent file belongs to."""
        if "subagents" in path.parts:
            for parent in path.parents:
                if parent.name == "subagents":
                    return self.folder(parent.parent.parent)
        return self.folder(path.parent)

    @cached_property
    def history(self) -> list[ClaudePrompt]:
        """The prompts typed in a terminal, in all sessions."""
        path = self.root / "history.jsonl"
        found: list[ClaudePrompt] = []
        if path.exists():
            for batch in read_batches(path, HISTORY, log_of(path)):
                found += [
                    ClaudePrompt(at, entry.display, entry.project, entry.session_id)
                    for entry in batch.records
                    if (at := parse_moment(entry.timestamp)) is not None
                ]
        return found

    @cached_property
    def clears(self) -> list[ClaudePrompt]:
        """Every /clear that was typed. 1.0.x wrote each up to three times within a few milliseconds."""
        found: list[ClaudePrompt] = []
        for entry in self.history:
            if _CLEAR.match(entry.text):
                last = found[-1] if found else None
                if last is None or last[2:] != entry[2:] or (entry.at - last.at).total_seconds() > 0.5:
                    found.append(entry)
        return found

    @cached_property
    def live(self) -> dict[str, m.Status]:
        """Sessions that a running agent has open, by its own register."""
        found: dict[str, m.Status] = {}
        for path in _listed(self.root / "sessions", ".json"):
            entry = _json(path)
            session = entry.get("sessionId")
            if isinstance(session, str) and _is_agent(path.stem):
                found[session] = "running" if entry.get("status") == "busy" else "waiting"
        return found

    @cached_property
    def fork_parents(self) -> dict[str, str]:
        """Background sessions and the session each was forked from (2.1.3xx, /fork)."""
        found = {}
        for folder in folders_in(self.root / "jobs"):
            state = _json(folder / "state.json")
            parent = state.get("forkParentSessionId")
            if isinstance(parent, str):
                found[str(state.get("sessionId"))] = parent
        return found


# --- the first and the last lines ------------------------------------------------------------------------------------


@while_unchanged
def read_head(path: Path) -> ClaudeHead | None:
    """Read the beginning of a file, as far as needed; None if it has no conversation."""
    block = read_start(path, _FIRST_LOOK)
    if block is None:
        # What we may not read may be a session, and reading it says so.
        return ClaudeHead(path, session=stem_of(path), first_uuid="?") if is_closed(path) else None
    head, is_complete = _head_of(path, _spoken(block))
    if not is_complete and (more := read_start(path, _HEAD_SIZE)) is not None:
        block = more
        head, _ = _head_of(path, _spoken(block))
    if head.first_uuid is None:
        head, _ = _head_of(path, HEAD_RECORDS.batch(block).records)
    if head.first_uuid is None and size_of(path) > len(block.data):
        for batch in read_batches(path, HEAD_RECORDS, log_of(path)):
            head, _ = _head_of(path, batch.records)
            if head.first_uuid is not None:
                break
    if head.plan_at is not None and _CLEAR_HOOK in block.data:
        head = head._replace(is_plan_marked=True)
    return head if head.first_uuid is not None else None


def _spoken(block: Block) -> Iterator[HeadRecord]:
    """The messages of a block; what is large and says nothing is not even decoded."""
    for line in block.lines():
        if _USER in line or _ASSISTANT in line:
            yield from HEAD_RECORDS.batch(block_of(line)).records


def _head_of(path: Path, lines: Iterable[HeadRecord]) -> tuple[ClaudeHead, bool]:
    """Return the head of some lines, and whether more lines could add to it."""
    head = ClaudeHead(path)
    for line in lines:
        if line.type not in ("user", "assistant") or line.message is None:
            continue
        if head.first_uuid is None:
            head = head._replace(
                first_uuid=line.uuid or "?",
                session=line.session_id,
                started_at=line.timestamp,
                version=line.version,
                cwd=line.cwd,
                git_branch=line.git_branch,
                slug=line.slug,
                forked_from=line.forked_from.session_id if line.forked_from is not None else None,
            )
        if line.process_session not in (None, line.session_id):
            head = head._replace(process_session=line.process_session)
        head = _note_words(head, line)
        if line.type == "assistant":
            return head, True
    return head, False


def _note_words(head: ClaudeHead, line: HeadRecord) -> ClaudeHead:
    if line.type != "user" or line.is_meta or head.prompt is not None or line.message is None:
        return head
    content = line.message.content
    text = content if isinstance(content, str) else next((b.text for b in content or () if b.text), "")
    if text.startswith(_CLEAR_LINE):
        return head._replace(clear_at=line.timestamp, cleared_by=line.uuid)
    if not text or text.startswith("<") or text in (MARKER, TOOL_MARKER):
        return head
    if is_plan(text):
        head = head._replace(
            plan_at=line.timestamp,
            plan_session=session_in(text),
            is_plan_marked=is_marked(line),
            slug=line.slug,
            cleared_by=line.uuid,
        )
    return head._replace(prompt=text, prompt_at=line.timestamp, lists=not isinstance(content, str))


def session_of(head: ClaudeHead) -> str:
    """The session a file belongs to: the one its lines name, if none of them names the file's own."""
    own = stem_of(head.path)
    if head.session in (None, own):
        return own
    name = f'"sessionId":"{own}"'.encode()
    return own if any(name in block for block in read_blocks(head.path)) else str(head.session)


@while_unchanged
def holds_subagents(path: Path) -> bool:
    """Whether a file has lines of a sub-agent, or lines that repeat them."""
    return any(_SIDECHAIN in block or _AGENT_PROGRESS in block for block in read_blocks(path))


def read_end_time(path: Path) -> datetime | None:
    """Return when a file was last written to, by its last lines."""
    block = read_end(path, _TAIL_SIZE)
    times = [line.timestamp for line in TIMES.batch(block).records if line.timestamp] if block is not None else []
    return times[-1] if times else None


# --- folders ---------------------------------------------------------------------------------------------------------


def _listed(folder: Path, suffix: str) -> list[Path]:
    return [path for path in files_in(folder) if path.name.endswith(suffix)]


def _agent_paths(folder: Path) -> list[Path]:
    """Iterate over sub-agent files, including those of workflows, which are two levels deeper."""
    found = _listed(folder, ".jsonl")
    for run in folders_in(folder / "workflows"):
        found += _listed(run, ".jsonl")
    return sorted(found)


def _meta(path: Path) -> AgentMeta:
    data = read_whole(path.with_suffix(".meta.json"))
    try:
        return msgspec.json.decode(data, type=AgentMeta) if data else AgentMeta()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return AgentMeta()


def _json(path: Path) -> dict[str, object]:
    value = decode_any(read_whole(path) or b"")
    return value if isinstance(value, dict) else {}


def _is_agent(pid: str) -> bool:
    """Whether the process of a register entry still runs, and is the agent: numbers are used again."""
    data = read_whole(Path("/proc") / pid / "cmdline") if pid.isdigit() else None
    return data is not None and b"claude" in data


def _start(head: ClaudeHead) -> float:
    return head.started_at.timestamp() if head.started_at else 0.0
