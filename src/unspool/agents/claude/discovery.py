"""Finds the sessions in Claude Code's folder by listing it and reading the first lines of its files."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from ...core import model as m
from ...core import typed_json
from ...core.timestamps import parse_moment, shifted
from ...io.decode import decode_any
from ...io.files import log_of, name_of, read_batches, read_start, read_whole, size_of, stem_of
from ...io.listing import files_in, folders_in
from .._metadata import digest
from .families import Family
from .heads import HEAD_SIZE, ClaudeHead, read_end_time, read_head, session_of
from .schema import HISTORY, RECORDS, AgentMeta

_CLEAR = re.compile(r"\s*/(?:clear|reset|new)\b")
AGENT_FILE = re.compile(r"agent-(?P<id>.+)\.jsonl$")


class ClaudeFiles(NamedTuple):
    """The files of one session. 1.0.x continues a resumed session in a new file, with the old session's id."""

    head: ClaudeHead
    more: tuple[Path, ...] = ()


class AgentFile(NamedTuple):
    """A sub-agent's file and its metadata."""

    path: Path
    id: str
    head: ClaudeHead
    meta: AgentMeta

    @property
    def is_top(self) -> bool:
        """Whether the session itself started it, not another sub-agent."""
        return self.meta.parent_agent_id is None and (self.meta.spawn_depth or 1) <= 1


class SessionAgents:
    """The sub-agents of one session. Lookups are cached, because reading each of them needs the others."""

    def __init__(self) -> None:
        self.files: list[AgentFile] = []

    @cached_property
    def ids(self) -> frozenset[str]:
        """Their ids."""
        return frozenset(file.id for file in self.files)

    @cached_property
    def top(self) -> list[AgentFile]:
        """Those that the session itself started."""
        return [file for file in self.files if file.is_top]

    def below(self, id: str) -> list[AgentFile]:
        """Return those that another sub-agent started."""
        return self._by_parent.get(id, [])

    @cached_property
    def _by_parent(self) -> dict[str | None, list[AgentFile]]:
        found: dict[str | None, list[AgentFile]] = {}
        for file in self.files:
            found.setdefault(file.meta.parent_agent_id, []).append(file)
        return found

    @cached_property
    def mark(self) -> str:
        """A digest that changes when one of the files changes; empty if there are none."""
        return digest([(file.path.name, size_of(file.path)) for file in self.files]) if self.files else ""


_NO_AGENTS = SessionAgents()


class ClaudePrompt(NamedTuple):
    """An entry of the prompt history."""

    at: datetime
    text: str
    project: str | None
    session: str | None


class ProjectFolder:
    """One project's folder of session files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._heads: dict[Path, ClaudeHead | None] = {}

    @cached_property
    def files(self) -> list[Path]:
        """All logs directly in the folder."""
        return files_in(self.path, ".jsonl")

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
        """The folders in it, by name; some sessions have one that is named after them."""
        return {name_of(folder.name): folder for folder in folders_in(self.path)}

    @cached_property
    def agents(self) -> dict[str, SessionAgents]:
        """Sub-agents by the session that started them, without warm-ups."""
        found: dict[str, SessionAgents] = {}
        for path in self.files:
            self._add_agent(found, path, None)
        for name, path in self.nested:
            self._add_agent(found, path, name)
        return found

    def agents_of(self, session: str | None) -> SessionAgents:
        """Return the sub-agents of a session, if it has any."""
        return self.agents.get(session or "", _NO_AGENTS)

    @cached_property
    def nested(self) -> list[tuple[str, Path]]:
        """Files of sub-agents in the folders of sessions, each with its session."""
        folders = self.subfolders.items()
        return [(name, path) for name, folder in folders for path in _agent_paths(folder / "subagents")]

    def _add_agent(self, found: dict[str, SessionAgents], path: Path, session: str | None) -> None:
        name = AGENT_FILE.match(path.name)
        head = self.head(path) if name else None
        if name and head and not head.is_warm_up:
            # If nothing names its session, the file name serves as the id of the session.
            files = found.setdefault(session or head.session or stem_of(path), SessionAgents()).files
            files.append(AgentFile(path, name_of(name["id"]), head, _meta(path)))

    @cached_property
    def agent_copies(self) -> dict[tuple[str, str | None], list[tuple[str, AgentFile]]]:
        """Sub-agents by id and first message, each with its session; those that share both are copies."""
        found: dict[tuple[str, str | None], list[tuple[str, AgentFile]]] = {}
        for session, agents in self.agents.items():
            for file in agents.files:
                found.setdefault((file.id, file.head.first_uuid), []).append((session, file))
        return found

    def family_of(self, head: ClaudeHead) -> Family | None:
        """Return the sessions that share the first message of one; None if no other has it."""
        return self._families.get(head.first_uuid or "")

    @cached_property
    def _families(self) -> dict[str, Family]:
        by_first: dict[str, dict[str, ClaudeHead]] = {}
        for id, files in self.sessions.items():
            if files.head.first_uuid is not None:
                by_first.setdefault(files.head.first_uuid, {})[id] = files.head
        return {first: Family(heads) for first, heads in by_first.items() if len(heads) > 1}

    def paths_of(self, session: str) -> tuple[Path, ...]:
        """Return the files of a session."""
        files = self.sessions[session]
        return (files.head.path, *files.more)

    @cached_property
    def summaries(self) -> dict[str, str]:
        """Titles that older versions wrote to separate files, by the message that each refers to."""
        found = {}
        for path in self.files:
            if self.head(path) is None and (block := read_start(path, HEAD_SIZE)) is not None:
                for line in RECORDS.batch(block).records:
                    if line.type == "summary" and line.leaf_uuid and line.summary:
                        found[line.leaf_uuid] = line.summary
        return found

    @cached_property
    def ends(self) -> dict[str, datetime]:
        """The time at which each session was last written to, by its last lines."""
        found = {}
        for id, files in self.sessions.items():
            times = [time for path in (files.head.path, *files.more) if (time := read_end_time(path))]
            if times:
                found[id] = max(times)
        return found

    @cached_property
    def _sorted_ends(self) -> list[tuple[datetime, str]]:
        return sorted((end, id) for id, end in self.ends.items())

    def last_before(self, at: datetime, other_than: str) -> str | None:
        """Return the last session that was active before a time, other than a given one."""
        position = bisect_right(self._sorted_ends, at, key=itemgetter(0))
        found = (id for _, id in reversed(self._sorted_ends[max(0, position - 2) : position]) if id != other_than)
        return next(found, None)

    def ended_near(self, at: datetime, within: timedelta) -> list[tuple[timedelta, str]]:
        """Return the sessions that were last active around a time, each with the difference in time."""
        return near_moment(self._sorted_ends, at, within)

    @cached_property
    def by_slug(self) -> dict[str | None, list[str]]:
        """Sessions by the name of their plan file."""
        found: dict[str | None, list[str]] = {}
        for id, files in self.sessions.items():
            if files.head.slug is not None:
                found.setdefault(files.head.slug, []).append(id)
        return found


def near_moment(moments: list[tuple[datetime, str]], at: datetime, within: timedelta) -> list[tuple[timedelta, str]]:
    """Return the moments of a sorted list that are close to a given one, each with the difference in time."""
    first = bisect_left(moments, shifted(at, -within), key=itemgetter(0))
    last = bisect_right(moments, shifted(at, within), key=itemgetter(0))
    return [(abs(moment - at), id) for moment, id in moments[first:last]]


class ClaudeHome:
    """The agent's folder: the projects' folders, and what other files say about sessions. All lookups are cached."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders: dict[Path, ProjectFolder] = {}

    def folder(self, path: Path) -> ProjectFolder:
        """A project's folder."""
        if path not in self._folders:
            self._folders[path] = ProjectFolder(path)
        return self._folders[path]

    def folders(self) -> Iterator[ProjectFolder]:
        """All project folders."""
        for path in folders_in(self.root / "projects"):
            yield self.folder(path)

    def folder_of(self, path: Path) -> ProjectFolder:
        """The project folder of a session or sub-agent file."""
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
    def texts(self) -> frozenset[str | None]:
        """The texts of all prompts."""
        return frozenset(entry.text for entry in self.history)

    @cached_property
    def typed(self) -> dict[str, list[ClaudePrompt]]:
        """The prompts whose session is known, by their text."""
        found: dict[str, list[ClaudePrompt]] = {}
        for entry in self.history:
            if entry.session:
                found.setdefault(entry.text.strip(), []).append(entry)
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
        """Sessions that a running agent has open, according to its register."""
        found: dict[str, m.Status] = {}
        for path in files_in(self.root / "sessions", ".json"):
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


def session_of_process(pids: Iterable[int], roots: Iterable[Path]) -> str | None:
    """Return the session that the first of some processes has open, according to the register; None if none has one."""
    folders = list(roots)
    for pid in pids:
        for root in folders:
            session = _json(root / "sessions" / f"{pid}.json").get("sessionId")
            if isinstance(session, str) and _is_agent(str(pid)):
                return session
    return None


def _agent_paths(folder: Path) -> list[Path]:
    """Return the sub-agent files in a folder, including those of workflows, which are two levels deeper."""
    found = files_in(folder, ".jsonl")
    for run in folders_in(folder / "workflows"):
        found += files_in(run, ".jsonl")
    return sorted(found)


def _meta(path: Path) -> AgentMeta:
    data = read_whole(path.with_suffix(".meta.json"))
    try:
        return typed_json.decode(data, type=AgentMeta) if data else AgentMeta()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return AgentMeta()


def _json(path: Path) -> dict[str, object]:
    value = decode_any(read_whole(path) or b"")
    return value if isinstance(value, dict) else {}


def _is_agent(pid: str) -> bool:
    """Whether the process of a register entry still runs and is the agent, as process ids are reused."""
    data = read_whole(Path("/proc") / pid / "cmdline") if pid.isdigit() else None
    return data is not None and b"claude" in data


def _start(head: ClaudeHead) -> float:
    return head.started_at.timestamp() if head.started_at else 0.0
