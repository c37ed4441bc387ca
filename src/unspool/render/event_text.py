"""Texts for events: a description in one line, and a label for the timeline.

Texts are registered by the Struct of the event. A kind without its own texts is described by its noun in the table of
event kinds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..core import model as m
from ..core.decisions import recorded_cause
from ..core.events import kind_of
from ..core.model import Event
from ..core.plural import counted
from .sanitize import one_line

_WIDTH = 80
_NAME_WIDTH = 40
_DURING: dict[m.During, str] = {
    "response": "a response",
    "tool": "a tool call",
    "subagent": "the work of a sub-agent",
    "approval": "an approval request",
}
OPEN_CALLS = {"running": "still running", "waiting": "waiting for you"}
"""Texts for calls that can still get a result."""
_BEFORE_OUTPUT = re.compile(r"(?:[A-Z][^\n]{0,80}\n){1,8}?Output:\s*(?:\n|$)")
"""Lines that some agents put before the output of a program: start time, duration and exit code."""


def describe_event(event: Event, width: int = _WIDTH) -> str:
    """Describe an event in one line, with at most `width` characters of a rejected command or path."""
    if isinstance(event, m.Rejection):
        return _rejection(event, width)
    return _LINES.get(type(event), _sentence)(event)


def timeline_label(event: Event) -> str:
    """Return the label of an event on the timeline."""
    return (_LABELS.get(type(event)) or _LINES.get(type(event), _sentence))(event)


def failure_line(event: m.Failure, width: int) -> str:
    """Describe a failure in one line, starting with the output of the program."""
    return f"{event.kind.replace('_', ' ')}: {one_line(_printed(event), width)}"


def _printed(event: m.Failure) -> str:
    head = _BEFORE_OUTPUT.match(event.text)
    if head is None:
        return event.text
    nothing = event.text if event.exit_code is None else f"exit code {event.exit_code}, no output"
    return event.text[head.end() :].strip() or nothing


# --- texts of the kinds -----------------------------------------------------------------------------------------------


def _sentence(event: Any) -> str:
    """Describe an event by its noun in the table and the first text field it has."""
    noun = kind_of(event).noun.partition(" ")[2]
    name = noun[0].upper() + noun[1:]
    text = next((getattr(event, name) for name in ("text", "detail", "reason", "evidence") if hasattr(event, name)), "")
    return f"{name}: {one_line(str(text), _WIDTH)}" if text else name


def compaction_label(boundary: m.Boundary) -> str:
    """Describe a compaction."""
    parts = ["Compacted" if boundary.scope == "messages" else "Old tool results dropped"]
    if boundary.trigger is not None:
        parts.append(boundary.trigger)
    if boundary.pre_tokens is not None:
        after = f" → {boundary.post_tokens:,}" if boundary.post_tokens is not None else ""
        parts.append(f"{boundary.pre_tokens:,}{after} tokens")
    replaced, kept = len(boundary.replaced_message_indices), len(boundary.preserved_message_indices)
    if boundary.scope == "messages":
        parts.append(f"{counted(replaced, 'message')} replaced, {kept:,} kept")
    else:
        parts.append(counted(len(boundary.dropped_tool_use_ids), "result"))
    return " · ".join(parts)


def interruption_label(interruption: m.Interruption) -> str:
    """Describe an interruption: by whom, during what, and why."""
    who = "by the user" if interruption.type == "user" else "by the system"
    cause = recorded_cause(interruption)
    why = f": {cause}" if cause else ""
    during = _DURING[interruption.during]
    return f"Interrupted {who} during {during}{confidence_suffix(interruption.confidence)}{why}"


def clear_label(clear: m.ContextClear) -> str:
    """Describe a clear of the context."""
    onward = f"; continues in {clear.next_session}" if clear.next_session else ""
    return f"Context cleared{confidence_suffix(clear.confidence)}{onward}"


def fork_label(branch: m.Branch) -> str:
    """Describe the branch that was left at a fork."""
    why = {
        "rewind": "rewound", "interrupted": "abandoned", "resumed": "left behind on resume", "retry": "tried again",
        "fork": "forked",
    }[branch.reason]  # fmt: skip
    return f"{counted(branch.length, 'message')} {why} here (branch {branch.id})"


def resume_label(resume: m.Resume) -> str:
    """Describe a resume, and how many messages were lost from the context."""
    lost = len(resume.lost_message_indices)
    onward = f"; {counted(lost, 'message')} {'was' if lost == 1 else 'were'} lost from the context" if lost else ""
    return f"Resumed ({resume.evidence}){confidence_suffix(resume.confidence)}{onward}"


def subagent_label(agent: m.Subagent) -> str:
    """Describe a sub-agent and its status."""
    return " · ".join(part for part in (agent.agent_type, agent.description, agent.status, agent.session) if part)


def confidence_suffix(confidence: float) -> str:
    """Return the confidence as a suffix if an event was only inferred."""
    return "" if confidence >= 0.95 else f" ({confidence:.0%} sure)"


def _rejection(event: m.Rejection, width: int) -> str:
    action = event.action
    what = (action.command or action.path or "") if action is not None else ""
    if event.asked_to_clarify:
        return f"{event.tool_name or '?'}: the user asked to clarify the questions"
    why = f" “{event.reason}”" if event.reason else ""
    return f"{event.tool_name or '?'} {one_line(what, width)} rejected by {event.by}{why}"


def _input_change(event: m.InputChange) -> str:
    asked, ran = (action.command or action.path or "" for action in (event.asked, event.ran))
    what = f": {one_line(ran, _WIDTH)}, asked for {one_line(asked, _WIDTH)}" if ran and ran != asked else ""
    return f"{event.tool_name} ran with a changed input{what}"


def _problem(event: m.Problem) -> str:
    where = f" (line {event.source.line})" if event.source is not None else ""
    return f"{event.reason}: {one_line(event.detail, 160)}{where}"


_LINES: dict[type[Any], Callable[[Any], str]] = {
    m.Boundary: compaction_label,
    m.ContextClear: clear_label,
    m.Interruption: interruption_label,
    m.InputChange: _input_change,
    m.Rollback: lambda event: f"{len(event.dropped_message_indices)} messages dropped",
    m.Failure: lambda event: failure_line(event, 120),
    m.Orphan: lambda event: f"{event.tool_name} unfinished ({event.reason})",
    m.Subagent: lambda event: f"{event.agent_type or 'sub-agent'} {event.status} {event.session or ''}",
    m.Resume: lambda event: event.evidence,
    m.Branch: fork_label,
    m.Problem: _problem,
}
"""Descriptions, by the Struct of the event."""


def _rejected_tool(event: m.Rejection) -> str:
    reason = f": “{one_line(event.reason, _WIDTH)}”" if event.reason else ""
    if event.asked_to_clarify:
        return "Asked to clarify the questions"
    return f"Rejected {one_line(event.tool_name or '', _NAME_WIDTH)}{reason}"


def _unfinished_call(event: m.Orphan) -> str:
    state = OPEN_CALLS.get(event.reason, f"unfinished call ({event.reason})")
    return f"{one_line(event.tool_name, _NAME_WIDTH)}: {state}"


_LABELS: dict[type[Any], Callable[[Any], str]] = {
    m.Rejection: _rejected_tool,
    m.Failure: lambda event: failure_line(event, _WIDTH),
    m.Orphan: _unfinished_call,
    m.Subagent: lambda event: one_line(subagent_label(event), _WIDTH),
    m.Resume: resume_label,
}
"""Labels for the timeline, if they differ from the descriptions."""
