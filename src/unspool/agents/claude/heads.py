"""Reads the first and the last lines of Claude Code's session files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from ...io.files import (
    is_closed,
    log_of,
    read_batches,
    read_blocks,
    read_end,
    read_start,
    size_of,
    stem_of,
    while_unchanged,
)
from ...io.lines import Block
from .outcomes import MARKER, TOOL_MARKER
from .plans import is_marked, is_plan, session_in
from .schema import HEAD_RECORDS, TIMES, HeadRecord

_CLEAR_LINE = "<command-name>/clear</command-name>"
_FIRST_LOOK = 1 << 14
HEAD_SIZE = 1 << 16
"""Bytes to read to find out what a file contains."""
_TAIL_SIZE = 1 << 15
_USER = b'"type":"user"'
_ASSISTANT = b'"type":"assistant"'
_SIDECHAIN = b'"isSidechain":true'
_AGENT_PROGRESS = b'"type":"agent_progress"'
_CLEAR_HOOK = b'"hookName":"SessionStart:clear"'


class ClaudeHead(NamedTuple):
    """The facts in the first lines of a session file."""

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
    """Session that the process started with, if it is another one (2.1.3xx)."""
    lists: bool = False
    """Whether its first prompt is a list of blocks, which strings become when 2.0.x copies them."""

    @property
    def is_warm_up(self) -> bool:
        """Whether it is one of the two agents that 2.0.x starts to warm a cache."""
        return self.prompt == "Warmup"


@while_unchanged
def read_head(path: Path) -> ClaudeHead | None:
    """Read the beginning of a file, as far as needed; None if it has no conversation."""
    block = read_start(path, _FIRST_LOOK)
    if block is None:
        # A file without read permission may be a session; reading it reports the problem.
        return ClaudeHead(path, session=stem_of(path), first_uuid="?") if is_closed(path) else None
    head, is_complete = _head_of(path, _spoken(block))
    if not is_complete and (more := read_start(path, HEAD_SIZE)) is not None:
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
    """Iterate over the messages of a block; other lines may be large and are not decoded."""
    for line in block.lines():
        if _USER in line or _ASSISTANT in line:
            yield from HEAD_RECORDS.records_in(line)


def _head_of(path: Path, lines: Iterable[HeadRecord]) -> tuple[ClaudeHead, bool]:
    """Return the head of some lines, and whether it is complete."""
    head = ClaudeHead(path)
    for line in lines:
        if line.type not in ("user", "assistant") or line.message is None:
            continue
        if head.first_uuid is None:
            head = head._replace(
                first_uuid=line.uuid or "?",
                session=_shared(line.session_id),
                started_at=line.timestamp,
                version=_shared(line.version),
                cwd=_shared(line.cwd),
                git_branch=_shared(line.git_branch),
                slug=_shared(line.slug),
                forked_from=line.forked_from.session_id if line.forked_from is not None else None,
            )
        if line.process_session not in (None, line.session_id):
            head = head._replace(process_session=line.process_session)
        head = _note_words(head, line)
        if line.type == "assistant":
            return head, True
    return head, False


def _shared(text: str | None) -> str | None:
    """Return the same text, which is in memory only once for all heads."""
    return sys.intern(text) if text is not None else None


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
    """Return the session of a file: the one in its first message if no line names the session of the file name."""
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
