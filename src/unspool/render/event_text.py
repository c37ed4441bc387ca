"""Events in words: what happened, in one line, and the label of its mark on the timeline.

Texts are registered for the Struct of an event. A kind without texts of its own is described by what the table of
event kinds calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import model as m
from ..core.events import Event, kind_of
from .sanitize import one_line
from .transcript import clear_label, compaction_label, fork_label, interruption_label, resume_label, subagent_label

_WIDTH = 80
_NAME_WIDTH = 40


def describe_event(event: Event, width: int = _WIDTH) -> str:
    """What happened, in one line; at most `width` characters of a rejected command or path."""
    if isinstance(event, m.Rejection):
        return _rejection(event, width)
    return _LINES.get(type(event), _sentence)(event)


def timeline_label(event: Event) -> str:
    """What the mark of an event says on the timeline."""
    return (_LABELS.get(type(event)) or _LINES.get(type(event), _sentence))(event)


def _sentence(event: Any) -> str:
    """What the table calls an event, with what the event says of itself."""
    noun = kind_of(event).noun.partition(" ")[2]
    name = noun[0].upper() + noun[1:]
    text = next((getattr(event, name) for name in ("text", "detail", "reason", "evidence") if hasattr(event, name)), "")
    return f"{name}: {one_line(str(text), _WIDTH)}" if text else name


def _rejection(event: m.Rejection, width: int) -> str:
    action = event.action
    what = (action.command or action.path or "") if action is not None else ""
    why = f" “{event.reason}”" if event.reason else ""
    return f"{event.tool_name or '?'} {one_line(what, width)} rejected by {event.by}{why}"


def _problem(event: m.Problem) -> str:
    where = f" (line {event.source.line})" if event.source is not None else ""
    return f"{event.reason}: {one_line(event.detail)}{where}"


_LINES: dict[type[Any], Callable[[Any], str]] = {
    m.Boundary: compaction_label,
    m.ContextClear: clear_label,
    m.Interruption: interruption_label,
    m.Rollback: lambda event: f"{len(event.dropped_message_indices)} messages dropped",
    m.Failure: lambda event: f"{event.kind}: {one_line(event.text, 120)}",
    m.Orphan: lambda event: f"{event.tool_name} unfinished ({event.reason})",
    m.Subagent: lambda event: f"{event.agent_type or 'sub-agent'} {event.status} {event.session or ''}",
    m.Resume: lambda event: event.evidence,
    m.Branch: fork_label,
    m.Problem: _problem,
}
"""What happened, by the Struct of the event."""


def _rejected_tool(event: m.Rejection) -> str:
    reason = f": “{one_line(event.reason, _WIDTH)}”" if event.reason else ""
    return f"Rejected {one_line(event.tool_name or '', _NAME_WIDTH)}{reason}"


def _unfinished_call(event: m.Orphan) -> str:
    state = "is still running" if event.reason == "running" else f"unfinished ({event.reason})"
    return f"{one_line(event.tool_name, _NAME_WIDTH)} {state}"


_LABELS: dict[type[Any], Callable[[Any], str]] = {
    m.Rejection: _rejected_tool,
    m.Failure: lambda event: f"{event.kind.replace('_', ' ')}: {one_line(event.text, _WIDTH)}",
    m.Orphan: _unfinished_call,
    m.Subagent: lambda event: one_line(subagent_label(event), _WIDTH),
    m.Resume: resume_label,
}
"""Labels for the timeline, where they differ from the line."""
