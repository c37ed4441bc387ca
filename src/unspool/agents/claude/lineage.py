"""Links sub-agents of Claude Code to the calls that started them, and drops events that both files have."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.timestamps import shifted
from .discovery import AgentFile
from .parser import ClaudeParser
from .subagents import SubagentCall

# --- sub-agents ------------------------------------------------------------------------------------------------------


def link_agents(parser: ClaudeParser, files: list[AgentFile], session: str) -> None:
    """Link sub-agent files to the calls that started them, by the best evidence available."""
    free = {file.id: file for file in files}
    by_call = {file.meta.tool_use_id: file for file in files if file.meta.tool_use_id}
    linked: dict[str, tuple[AgentFile | None, str | None]] = {}
    known = {link.tool_use_id for link in parser.builder.events.subagents}
    for call_id, result in parser.subagents.results.items():
        if result.agent_id is not None and call_id not in known:
            linked[call_id] = free.pop(result.agent_id, None), "agentId"
    for call_id in parser.subagents.started:
        file = by_call.get(call_id)
        if call_id not in linked and file is not None and file.id in free:
            linked[call_id] = free.pop(file.id), "toolUseId"
    by_task = _by_task(free.values())
    for call_id, spawn in parser.subagents.started.items():
        if call_id not in linked and (file := _take_by_task(spawn, by_task)) is not None:
            linked[call_id] = free.pop(file.id), "prompt and time"
    for call_id in parser.subagents.stopped - known:
        linked.setdefault(call_id, (None, None))
    for call_id, (file, how) in linked.items():
        parser.builder.events.subagents.append(_subagent(parser, call_id, file, how, session))
    for file in free.values():
        parser.builder.events.subagents.append(_subagent(parser, None, file, None, session))


def _by_task(files: Iterable[AgentFile]) -> dict[str, list[AgentFile]]:
    """Group sub-agents by their tasks, each group in the order in which they started."""
    found: dict[str, list[AgentFile]] = {}
    for file in sorted(files, key=lambda file: (file.head.started_at is None, file.head.started_at)):
        found.setdefault((file.head.prompt or "").strip(), []).append(file)
    return found


def _take_by_task(spawn: SubagentCall, by_task: dict[str, list[AgentFile]]) -> AgentFile | None:
    """Return the first sub-agent that got this task after the call, and remove it."""
    files = by_task.get((spawn.prompt or "").strip(), [])
    for position, file in enumerate(files):
        started = file.head.started_at
        if not (spawn.timestamp and started and started < shifted(spawn.timestamp, timedelta(seconds=-1))):
            return files.pop(position)
    return None


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
    reported = parser.subagents.notified.get(agent_id or "") or (result.status if result is not None else None)
    if reported == "completed":
        return "completed"
    if reported == "failed":
        return "failed"
    if call_id in parser.subagents.stopped or (file is not None and file.meta.stopped_by_user):
        return "interrupted"
    if file is not None and file.meta.finished:
        return "completed"
    if reported in ("killed", "stopped") or parser.subagents.all_killed or call_id in parser.builder.calls.open:
        return "killed"
    return "unknown"


def link_inline(main: ClaudeParser, inline: list[ClaudeParser]) -> None:
    """Link sub-agents in the file of the session to their calls: by the call they name, or by their task (1.0.x)."""
    free = dict(main.subagents.started)
    by_prompt: dict[str | None, list[SubagentCall]] = {}
    for spawn in reversed(free.values()):
        by_prompt.setdefault(spawn.prompt, []).append(spawn)
    for parser in inline:
        named, waiting = parser.subagents.started_by, by_prompt.get(parser.authors.task, [])
        while not named and waiting and waiting[-1].call_id not in free:
            waiting.pop()
        found = free.get(named) if named else waiting[-1] if waiting else None
        if found is None:
            continue
        spawn = free.pop(found.call_id)
        link = _subagent(main, spawn.call_id, None, "parentToolUseID" if named else "prompt", main.builder.id)
        link.agent_id, link.session = parser.builder.id.rsplit("/", 1)[-1], parser.builder.id
        link.status = _status(main, spawn.call_id, link.agent_id, None)
        if link.status == "unknown":
            link.status = "completed"
        main.builder.events.subagents.append(link)


# --- one event, recorded in several files ----------------------------------------------------------------------------


def drop_echo_in_child(child: SessionBuilder, links: list[m.Subagent], events_above: list[m.Interruption]) -> None:
    """Drop the interruption of a sub-agent that its parent session also has."""
    calls = {link.tool_use_id for link in links if link.session == child.id}
    is_known = any(calls & set(event.tool_use_ids) for event in events_above)
    last = child.events.interruptions[-1] if child.events.interruptions else None
    if is_known and last is not None and (last.message_index or 0) >= len(child) - 2:
        child.events.interruptions.pop()


def drop_echo_in_parent(parent: SessionBuilder, rejected: Collection[str | None]) -> None:
    """Drop the interruption that the rejection of a sub-agent's call causes in its parent (2.0.x)."""
    calls = {link.tool_use_id for link in parent.events.subagents if link.session in rejected}
    parent.events.interruptions = [
        event
        for event in parent.events.interruptions
        if event.during != "subagent" or not calls & set(event.tool_use_ids)
    ]
