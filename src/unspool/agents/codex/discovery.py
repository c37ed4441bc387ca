"""Finds the threads in Codex CLI's folder: their rollout files, their names, and the prompt history."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ...core import model as m
from ...core.timestamps import parse_moment
from ...io.decode import decode_any
from ...io.files import log_of, read_batches, read_end, read_start, size_of, while_unchanged
from ...io.lines import Block, block_of
from ...io.listing import walk_files
from ...io.sources import COMPRESSED
from .schema import BARE_META, HISTORY, INDEX, META_RECORDS, RECORDS, HistoryBase, SessionMeta

_ID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_NAME = re.compile(
    rf"rollout-(?P<time>\d{{4}}-\d\d-\d\d(?:T\d\d-\d\d-\d\d)?)-(?P<thread>{_ID})(?:_(?P<rollout>{_ID}))?"
    r"\.(?P<suffix>jsonl|jsonl\.zst|json)$"
)
_CLEAR = re.compile(r"\s*/(?:clear|new)\b")
_HEAD_SIZE = 1 << 16
_TAIL_SIZE = 1 << 14


class CodexHead(NamedTuple):
    """The facts in the first lines of a rollout."""

    id: str | None = None
    started_at: datetime | None = None
    version: str | None = None
    cwd: str | None = None
    git: m.Git | None = None
    forked_from: str | None = None
    copied_from: str | None = None
    """The thread of the second `session_meta`, whose lines were copied."""
    parent: str | None = None
    subagent: str | None = None
    """The kind of sub-agent: `review`, `thread_spawn`, `compact`, …"""
    agent_role: str | None = None
    history_base: HistoryBase | None = None
    own_from_ordinal: int | None = None
    bare: bool = False


class RolloutFile(NamedTuple):
    """A rollout file, and the parts of its name."""

    path: Path
    thread: str
    rollout: str
    """The id of the thread, or another one if the file is a revert."""
    time: str
    archived: bool


class CodexFolder:
    """The rollout files in one `.codex` folder. All lookups are cached."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._heads: dict[Path, CodexHead] = {}

    @cached_property
    def threads(self) -> dict[str, list[RolloutFile]]:
        """All threads with their files, the oldest first."""
        found: dict[str, dict[str, RolloutFile]] = {}
        for file in self._files():
            known = found.setdefault(file.thread, {})
            if file.rollout not in known or _is_newer(file, known[file.rollout]):
                known[file.rollout] = file
        return {
            thread: sorted(files.values(), key=lambda file: (file.time, file.rollout != thread))
            for thread, files in sorted(found.items(), key=lambda item: min(f.time for f in item[1].values()))
        }

    def _files(self) -> Iterator[RolloutFile]:
        for archived, folder in ((False, self.root / "sessions"), (True, self.root / "archived_sessions")):
            for path in walk_files(folder):
                if (file := rollout_file(path, archived)) is not None:
                    yield file

    @cached_property
    def rollouts(self) -> dict[str, RolloutFile]:
        """All files by the id of their rollout."""
        return {file.rollout: file for files in self.threads.values() for file in files}

    def head(self, path: Path) -> CodexHead:
        """Return the head of a file."""
        if path not in self._heads:
            self._heads[path] = read_head(path)
        return self._heads[path]

    def bases(self, path: Path) -> list[tuple[RolloutFile, int]]:
        """Return the files that a rollout continues, the first one first, each with the ordinal at which it is left.

        Damaged files may name themselves or each other, but no file is continued twice.
        """
        found: list[tuple[RolloutFile, int]] = []
        known = {path}
        base = self.head(path).history_base
        while base is not None and base.end_ordinal_exclusive is not None:
            file = self.rollouts.get(base.thread_id or "")
            if file is None or file.path in known:
                break
            known.add(file.path)
            found.append((file, base.end_ordinal_exclusive))
            base = self.head(file.path).history_base
        return found[::-1]

    @cached_property
    def names(self) -> dict[str, str]:
        """The names given to threads; the last one counts."""
        path = self.root / "session_index.jsonl"
        found: dict[str, str] = {}
        if path.exists():
            for batch in read_batches(path, INDEX, log_of(path)):
                found.update((line.id, line.thread_name) for line in batch.records if line.id and line.thread_name)
        return found

    @cached_property
    def clears(self) -> dict[str, list[datetime]]:
        """Every /clear and /new in the prompt history, by thread; recent versions do not record them."""
        path = self.root / "history.jsonl"
        found: dict[str, list[datetime]] = {}
        if path.exists():
            for batch in read_batches(path, HISTORY, log_of(path)):
                for line in batch.records:
                    if line.session_id and _CLEAR.match(line.text) and (at := parse_moment(line.ts)):
                        found.setdefault(line.session_id, []).append(at)
        return found

    @cached_property
    def starts(self) -> list[tuple[datetime, str]]:
        """The start of each thread, the oldest first."""
        heads = ((thread, self.head(files[0].path)) for thread, files in self.threads.items())
        return sorted((head.started_at, thread) for thread, head in heads if head.started_at is not None)

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """The threads that name another thread as their parent, by that thread."""
        found: dict[str, list[str]] = {}
        for thread, files in self.threads.items():
            if (parent := self.head(files[0].path).parent) is not None:
                found.setdefault(parent, []).append(thread)
        return found

    @cached_property
    def reviews(self) -> list[tuple[str, CodexHead]]:
        """The threads of reviews."""
        heads = ((thread, self.head(files[0].path)) for thread, files in self.threads.items())
        return [(thread, head) for thread, head in heads if head.subagent == "review"]


def _is_newer(file: RolloutFile, other: RolloutFile) -> bool:
    """Whether a file continues another one of the same rollout: a copy in some folder, or one that was compressed.

    A rollout that exists compressed and plain was just unpacked to be continued. Of two copies, the longer one counts,
    because lines are only appended.
    """
    is_plain, other_is_plain = file.path.suffix != COMPRESSED, other.path.suffix != COMPRESSED
    return is_plain if is_plain != other_is_plain else size_of(file.path) > size_of(other.path)


def rollout_file(path: Path, archived: bool = False) -> RolloutFile | None:
    """Parse the name of a file; None if it is not a rollout."""
    name = _NAME.match(path.name)
    if name is None:
        return None
    thread = name["thread"]
    return RolloutFile(path, thread, name["rollout"] or thread, name["time"], archived)


# --- heads -----------------------------------------------------------------------------------------------------------


@while_unchanged
def read_head(path: Path) -> CodexHead:
    """Read the first lines of a rollout."""
    block = read_start(path, _HEAD_SIZE)
    if block is None:
        return CodexHead()
    end = block.data.find(b"\n") + 1 or len(block.data)
    end = block.data.find(b"\n", end) + 1 or len(block.data)
    first = block_of(block.data[:end])
    lines = META_RECORDS.batch(first).records
    if not lines or lines[0].payload is None:
        return _bare_head(first)
    head = _head_of(lines[0].payload)
    second = lines[1] if len(lines) > 1 and lines[1].type == "session_meta" else None
    if second is not None and second.payload is not None and second.payload.id != head.id:
        head = head._replace(copied_from=second.payload.id)
    return head


def _head_of(meta: SessionMeta) -> CodexHead:
    kind, spawn = _source(meta.source)
    git = m.Git(meta.git.branch, meta.git.commit_hash) if meta.git is not None else None
    parent = meta.parent_thread_id or spawn.get("parent_thread_id")
    return CodexHead(
        id=meta.id,
        started_at=meta.timestamp,
        version=meta.cli_version,
        cwd=meta.cwd,
        git=git,
        forked_from=meta.forked_from_id,
        parent=parent if isinstance(parent, str) else None,
        subagent=kind,
        agent_role=spawn.get("agent_role") or spawn.get("agent_nickname"),
        history_base=meta.history_base,
        own_from_ordinal=meta.subagent_history_start_ordinal,
    )


def _bare_head(block: Block) -> CodexHead:
    lines = BARE_META.batch(block).records
    if not lines:
        return CodexHead()
    git = m.Git(lines[0].git.branch, lines[0].git.commit_hash) if lines[0].git is not None else None
    return CodexHead(id=lines[0].id, started_at=lines[0].timestamp, git=git, bare=True)


def _source(raw: msgspec.Raw) -> tuple[str | None, dict[str, Any]]:
    """Return the kind of sub-agent and its details, if the thread is one."""
    value = decode_any(raw)
    inner = value.get("subagent") if isinstance(value, dict) else None
    if isinstance(inner, str):
        return inner, {}
    if isinstance(inner, dict):
        kind = next(iter(inner), "other")
        detail = inner[kind] if inner else None
        return kind, detail if isinstance(detail, dict) else {}
    return None, {}


def last_time(path: Path) -> datetime | None:
    """Return when a rollout was last written to, by its last lines."""
    if path.suffix != ".jsonl" or (block := read_end(path, _TAIL_SIZE)) is None:
        return None
    times = [line.timestamp for line in RECORDS.batch(block).records if line.timestamp is not None]
    return times[-1] if times else None
