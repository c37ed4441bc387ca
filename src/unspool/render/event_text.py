"""Every kind of event in one line of plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..core import model as m
from ..core.session import Session
from .sanitize import one_line
from .transcript import clear_label, compaction_label, fork_label, interruption_label

Event = (
    m.Boundary | m.ContextClear | m.Interruption | m.Rejection | m.Rollback | m.Failure | m.Orphan | m.Subagent
    | m.Resume | m.Branch | m.Problem
)  # fmt: skip

EVENTS: dict[str, type[Event]] = {
    "compaction": m.Boundary, "clear": m.ContextClear, "interruption": m.Interruption, "rejection": m.Rejection,
    "rollback": m.Rollback, "error": m.Failure, "orphan": m.Orphan, "subagent": m.Subagent, "resume": m.Resume,
    "branch": m.Branch, "problem": m.Problem,
}  # fmt: skip
"""The kinds of events by the names they have in the store and on the command line."""


def iter_events(session: Session) -> Iterator[tuple[str, Event]]:
    """All events of a session, kind by kind; its messages are not needed."""
    found: tuple[Sequence[Event], ...] = (
        session.compaction.boundaries, session.context_clears, session.interruptions, session.rejections,
        session.rollbacks, session.errors, session.orphans, session.subagents, session.resumes, session.branches,
        session.problems,
    )  # fmt: skip
    return ((kind, event) for kind, events in zip(EVENTS, found, strict=True) for event in events)


def place_of(event: Event) -> int | None:
    """The message at which something happened."""
    match event:
        case m.ContextClear():
            return event.after_message_index
        case m.Branch():
            return event.root_index
        case m.Problem():
            return None
        case _:
            return event.message_index


def describe_event(event: Event, width: int = 80) -> str:
    """Say what happened; of a command or a path that was refused, no more than `width`."""
    match event:
        case m.Boundary():
            return compaction_label(event)
        case m.ContextClear():
            return clear_label(event)
        case m.Interruption():
            return interruption_label(event)
        case m.Rejection():
            return _refusal(event, width)
        case m.Rollback():
            return f"{len(event.dropped_message_indices)} messages dropped"
        case m.Failure():
            return f"{event.kind}: {one_line(event.text, 120)}"
        case m.Orphan():
            return f"{event.tool_name} never finished ({event.reason})"
        case m.Subagent():
            return f"{event.agent_type or 'sub-agent'} {event.status} {event.session or ''}"
        case m.Resume():
            return event.evidence
        case m.Branch():
            return fork_label(event)
        case m.Problem():
            where = f" (line {event.source.line})" if event.source is not None else ""
            return f"{event.reason}: {one_line(event.detail)}{where}"


def _refusal(event: m.Rejection, width: int) -> str:
    action = event.action
    what = (action.command or action.path or "") if action is not None else ""
    why = f" “{event.reason}”" if event.reason else ""
    return f"{event.tool_name or '?'} {one_line(what, width)} refused by {event.by}{why}"
