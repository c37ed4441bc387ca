"""How sessions of Claude Code are related: forks and sub-agents."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from pathlib import Path

from ...core import model as m
from ...core.builder import SessionBuilder
from ...io.files import read_blocks, read_start, while_unchanged
from .clears import clear_origin
from .discovery import AgentFile, ClaudeFolder, ClaudeHead, Surroundings
from .parser import ClaudeParser
from .schema import RECORDS
from .subagents import SubagentCall

_UUID = re.compile(rb'"uuid":"([0-9a-fA-F-]{36})"')
_METADATA_LINE = re.compile(
    rb'^\{"type":"(?:last-prompt|mode|file-history|queue-operation|permission-mode)', re.MULTILINE
)
_ANSWER = b'"type":"assistant"'
_SAME_MOMENT = timedelta(seconds=30)
_HEAD_SIZE = 1 << 16


# --- forks -----------------------------------------------------------------------------------------------------------


def find_origin(session: str, folder: ClaudeFolder, around: Surroundings) -> m.Origin:
    """Find out how a session started."""
    files = folder.sessions.get(session)
    if files is None:
        return m.Origin(kind="new")
    head = files.head
    if (cleared := clear_origin(session, folder, around)) is not None:
        return cleared
    if session in around.fork_parents:
        return m.Origin(kind="fork", session=around.fork_parents[session], evidence="job state")
    if head.forked_from is not None:
        return m.Origin(kind="branch", session=head.forked_from, evidence="named by its lines")
    if head.process_session is not None:
        return m.Origin(kind="fork", session=head.process_session, evidence="named by its lines")
    if head.session not in (None, session):
        return m.Origin(kind="fork", session=head.session, evidence="named by its lines")
    return _copy_origin(session, head, folder, around) or m.Origin(kind="new")


def _copy_origin(session: str, head: ClaudeHead, folder: ClaudeFolder, around: Surroundings) -> m.Origin | None:
    """Recognise a fork by lines that its original has too: versions before 2.1.3xx record nothing else."""
    twins = [id for id in folder.by_first_uuid.get(head.first_uuid or "", ()) if id != session]
    if not twins:
        return None
    typed = _typed_in(head, around)
    if typed is not None:
        return None if typed == session else _copy_of(typed, "prompt history")
    heads = {id: folder.sessions[id].head for id in twins}
    if head.lists or any(twin.lists for twin in heads.values()):
        original = next((id for id, twin in heads.items() if not twin.lists), None)
        return _copy_of(original, "form of the prompts") if head.lists and original is not None else None
    later = {id for id, each in {session: head, **heads}.items() if _begins_later(each)}
    if later:
        original = next((id for id in heads if id not in later), None)
        is_copy = session in later and original is not None
        return _copy_of(str(original), "begun after its first message") if is_copy else None
    if _is_contiguous(head.path):
        original = next((id for id, twin in heads.items() if not _is_contiguous(twin.path)), None)
        return _copy_of(original, "copied at once") if original is not None else None
    return None


def _copy_of(session: str, evidence: str) -> m.Origin:
    return m.Origin(kind="fork", session=session, evidence=f"same message ids; {evidence}", confidence=0.9)


def _typed_in(head: ClaudeHead, around: Surroundings) -> str | None:
    """Return the session in which the first prompt was typed, by the prompt history."""
    if head.prompt is None or head.prompt_at is None:
        return None
    for entry in around.history:
        if (
            entry.session
            and entry.text.strip() == head.prompt.strip()
            and abs(entry.at - head.prompt_at) < _SAME_MOMENT
        ):
            return entry.session
    return None


def _begins_later(head: ClaudeHead) -> bool:
    """Whether a file begins with metadata that is newer than its first message, so that the message was copied."""
    noted = _first_noted(head.path)
    return noted is not None and head.started_at is not None and noted > head.started_at


@while_unchanged
def _first_noted(path: Path) -> datetime | None:
    """Return when something was typed, by the metadata before the first message."""
    block = read_start(path, _HEAD_SIZE)
    for line in RECORDS.batch(block).records if block is not None else ():
        if line.type in ("user", "assistant"):
            break
        if line.type == "queue-operation" and line.timestamp is not None:
            return line.timestamp
    return None


@while_unchanged
def _is_contiguous(path: Path) -> bool:
    """Whether the lines were copied at once: lines written one by one have metadata between them."""
    data = b""
    for block in read_blocks(path, _HEAD_SIZE):
        data += block
        first = data.find(_ANSWER)
        second = data.find(_ANSWER, first + 1)
        if 0 <= first < second:
            return _METADATA_LINE.search(data, first, second) is None
        data = data[first:] if first >= 0 else b""
    return False


def original_of(folder: ClaudeFolder, origin: m.Origin) -> tuple[Path, ...]:
    """Return the files of the session that another was copied from."""
    files = folder.sessions.get(origin.session or "") if origin.kind in ("fork", "branch") else None
    return (files.head.path, *files.more) if files is not None else ()


def copied_ids(folder: ClaudeFolder, origin: m.Origin) -> frozenset[str]:
    """Return the ids of the messages in the original; none if the original is gone."""
    found: set[str] = set()
    for path in original_of(folder, origin):
        for block in read_blocks(path):
            found.update(id.decode() for id in _UUID.findall(block))
    return frozenset(found)


# --- sub-agents ------------------------------------------------------------------------------------------------------


def link_agents(parser: ClaudeParser, files: list[AgentFile], session: str) -> None:
    """Link sub-agent files to the calls that started them, by the best evidence there is."""
    free = {file.id: file for file in files}
    by_call = {file.meta.tool_use_id: file for file in files if file.meta.tool_use_id}
    linked: dict[str, tuple[AgentFile | None, str | None]] = {}
    for call_id, result in parser.subagents.results.items():
        if result.agent_id is not None:
            linked[call_id] = free.pop(result.agent_id, None), "agentId"
    for call_id in parser.subagents.started:
        file = by_call.get(call_id)
        if call_id not in linked and file is not None and file.id in free:
            linked[call_id] = free.pop(file.id), "toolUseId"
    for call_id, spawn in parser.subagents.started.items():
        if call_id not in linked and (file := _by_task(spawn, free.values())) is not None:
            linked[call_id] = free.pop(file.id), "prompt and time"
    known = {link.tool_use_id for link in parser.builder.events.subagents}
    for call_id in parser.subagents.stopped - known:
        linked.setdefault(call_id, (None, None))
    for call_id, (file, how) in linked.items():
        parser.builder.events.subagents.append(_subagent(parser, call_id, file, how, session))
    for file in free.values():
        parser.builder.events.subagents.append(_subagent(parser, None, file, None, session))


def _by_task(spawn: SubagentCall, files: Iterable[AgentFile]) -> AgentFile | None:
    """Return the first sub-agent that got this task after the call."""
    task = (spawn.prompt or "").strip()
    fits = [
        file
        for file in files
        if (file.head.prompt or "").strip() == task
        and not (
            spawn.timestamp and file.head.started_at and file.head.started_at < spawn.timestamp - timedelta(seconds=1)
        )
    ]
    return min(fits, key=lambda file: (file.head.started_at is None, file.head.started_at), default=None)


def _subagent(
    parser: ClaudeParser, call_id: str | None, file: AgentFile | None, how: str | None, session: str
) -> m.Subagent:
    spawn = parser.subagents.started.get(call_id or "")
    result = parser.subagents.results.get(call_id or "")
    agent_id = file.id if file is not None else result.agent_id if result is not None else None
    return m.Subagent(
        message_index=spawn.message if spawn is not None else None,
        tool_use_id=call_id,
        agent_id=agent_id,
        session=f"{session}/{file.id}" if file is not None else None,
        status=_status(parser, call_id, agent_id, file),
        linked_by=how,
        agent_type=(spawn.agent_type if spawn else None) or (file.meta.agent_type if file else None),
        description=(spawn.description if spawn else None) or (file.meta.description if file else None),
    )


def _status(parser: ClaudeParser, call_id: str | None, agent_id: str | None, file: AgentFile | None) -> m.AgentStatus:
    result = parser.subagents.results.get(call_id or "")
    told = parser.subagents.notified.get(agent_id or "") or (result.status if result is not None else None)
    if told == "completed":
        return "completed"
    if told == "failed":
        return "failed"
    if call_id in parser.subagents.stopped or (file is not None and file.meta.stopped_by_user):
        return "interrupted"
    if file is not None and file.meta.finished:
        return "completed"
    if told in ("killed", "stopped") or parser.subagents.all_killed or call_id in parser.builder.calls.open:
        return "killed"
    return "unknown"


def link_inline(main: ClaudeParser, inline: list[ClaudeParser]) -> None:
    """Link sub-agents in the file of the session (1.0.x) to their calls; only the task identifies them."""
    free = dict(main.subagents.started)
    for parser in inline:
        spawn = next((spawn for spawn in free.values() if spawn.prompt == parser.authors.task), None)
        if spawn is None:
            continue
        del free[spawn.call_id]
        stopped = spawn.call_id in main.subagents.stopped
        killed = spawn.call_id in main.builder.calls.open
        main.builder.events.subagents.append(
            m.Subagent(
                message_index=spawn.message,
                tool_use_id=spawn.call_id,
                agent_id=parser.builder.id.rsplit("/", 1)[-1],
                session=parser.builder.id,
                status="interrupted" if stopped else "killed" if killed else "completed",
                linked_by="prompt",
                agent_type=spawn.agent_type,
                description=spawn.description,
            )
        )


# --- one event, recorded in several files ----------------------------------------------------------------------------


def drop_echo_in_child(child: SessionBuilder, links: list[m.Subagent], events_above: list[m.Interruption]) -> None:
    """Drop the interruption of a sub-agent that its parent session has already."""
    calls = {link.tool_use_id for link in links if link.session == child.id}
    told = any(calls & set(event.tool_use_ids) for event in events_above)
    last = child.events.interruptions[-1] if child.events.interruptions else None
    if told and last is not None and (last.message_index or 0) >= len(child) - 2:
        child.events.interruptions.pop()


def drop_echo_in_parent(parent: SessionBuilder, rejected: Collection[str | None]) -> None:
    """Drop the interruption that the rejection of a sub-agent's call causes in its parent (2.0.x): it is one event."""
    calls = {link.tool_use_id for link in parent.events.subagents if link.session in rejected}
    parent.events.interruptions = [
        event
        for event in parent.events.interruptions
        if event.during != "subagent" or not calls & set(event.tool_use_ids)
    ]
