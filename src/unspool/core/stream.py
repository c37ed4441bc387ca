"""The stream form: the same content as the record, as many small lines in reading order.

A session begins with a `session` line and ends with an `end` line that counts what was between them. Events stand
behind the message they belong to; what belongs to no message stands before the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from . import model as m
from .session import Session


class SessionLine(msgspec.Struct, tag="session"):
    """The head of a session."""

    schema: str
    session: m.SessionInfo


class MessageLine(msgspec.Struct, tag="message"):
    """A message."""

    message: m.Message


class CompactionLine(msgspec.Struct, tag="compaction", omit_defaults=True):
    """A compaction."""

    compaction: m.Boundary
    inherited: bool = False
    """It happened in the session this one was forked from."""


class ContextClearLine(msgspec.Struct, tag="context_clear"):
    """A cleared context."""

    context_clear: m.ContextClear


class InterruptionLine(msgspec.Struct, tag="interruption"):
    """An interruption."""

    interruption: m.Interruption


class RejectionLine(msgspec.Struct, tag="rejection"):
    """A rejection."""

    rejection: m.Rejection


class RollbackLine(msgspec.Struct, tag="rollback"):
    """A rollback."""

    rollback: m.Rollback


class ErrorLine(msgspec.Struct, tag="error"):
    """A failure."""

    error: m.Failure


class OrphanLine(msgspec.Struct, tag="orphan"):
    """A call without a result."""

    orphan: m.Orphan


class SubagentLine(msgspec.Struct, tag="subagent"):
    """A sub-agent."""

    subagent: m.Subagent


class ResumeLine(msgspec.Struct, tag="resume"):
    """A resume."""

    resume: m.Resume


class BranchLine(msgspec.Struct, tag="branch"):
    """A line of the conversation that was left."""

    branch: m.Branch


class ProblemLine(msgspec.Struct, tag="problem"):
    """A damaged or unknown line."""

    problem: m.Problem


class EndLine(msgspec.Struct, tag="end"):
    """The end of a session."""

    end: m.End


EventLine = (
    CompactionLine
    | ContextClearLine
    | InterruptionLine
    | RejectionLine
    | RollbackLine
    | ErrorLine
    | OrphanLine
    | SubagentLine
    | ResumeLine
    | BranchLine
    | ProblemLine
)
StreamLine = SessionLine | MessageLine | EventLine | EndLine


def iter_stream(session: Session) -> Iterator[StreamLine]:
    """A record as stream lines."""
    return lines_around(session, session.messages)


def lines_around(head: Session, messages: Iterable[m.Message]) -> Iterator[StreamLine]:
    """Stream lines of a record whose messages come from elsewhere, one at a time."""
    events = sorted(_events(head), key=lambda pair: pair[0])
    position = count = 0
    yield SessionLine(head.schema, head.info)
    for message in messages:
        count += 1
        yield MessageLine(message)
        while position < len(events) and events[position][0] <= message.index:
            yield events[position][1]
            position += 1
    for _, event in events[position:]:
        yield event
    counts = {"messages": count, **_counts(head)}
    yield EndLine(m.End(head.info.id, counts))


def collect(lines: Iterable[StreamLine]) -> Iterator[Session]:
    """Whole records from stream lines."""
    for line in lines:
        if isinstance(line, SessionLine):
            session = empty(line.session)
        elif isinstance(line, MessageLine):
            session.messages.append(line.message)
        elif isinstance(line, EndLine):
            yield session
        else:
            _list_for(session, line).append(_content(line))


def empty(info: m.SessionInfo) -> Session:
    """A record with nothing in it yet."""
    return Session(
        info=info, messages=[], compaction=m.Compaction([]), context_clears=[], interruptions=[], rejections=[],
        rollbacks=[], errors=[], orphans=[], subagents=[], resumes=[], branches=[], problems=[],
    )  # fmt: skip


_LAST = 1 << 62


def _events(head: Session) -> Iterator[tuple[int, EventLine]]:
    """All events of a record with the index of the message they stand behind."""
    for boundary in head.compaction.inherited:
        yield boundary.message_index, CompactionLine(boundary, inherited=True)
    for boundary in head.compaction.boundaries:
        yield boundary.message_index, CompactionLine(boundary)
    for clear in head.context_clears:
        yield _LAST if clear.after_message_index is None else clear.after_message_index, ContextClearLine(clear)
    for interruption in head.interruptions:
        yield (
            _LAST if interruption.message_index is None else interruption.message_index,
            InterruptionLine(interruption),
        )
    for rejection in head.rejections:
        yield rejection.message_index, RejectionLine(rejection)
    for rollback in head.rollbacks:
        yield _LAST if rollback.message_index is None else rollback.message_index, RollbackLine(rollback)
    for failure in head.errors:
        yield failure.message_index, ErrorLine(failure)
    for orphan in head.orphans:
        yield orphan.message_index, OrphanLine(orphan)
    for subagent in head.subagents:
        yield _LAST if subagent.message_index is None else subagent.message_index, SubagentLine(subagent)
    for resume in head.resumes:
        yield resume.message_index, ResumeLine(resume)
    for branch in head.branches:
        yield branch.root_index, BranchLine(branch)
    for problem in head.problems:
        yield _LAST, ProblemLine(problem)


def _list_for(session: Session, line: EventLine) -> list[Any]:
    if isinstance(line, CompactionLine):
        return session.compaction.inherited if line.inherited else session.compaction.boundaries
    kind = _tag(line)
    names = {"context_clear": "context_clears", "branch": "branches"}
    found: list[Any] = getattr(session, names.get(kind, kind + "s"))
    return found


def _content(line: EventLine) -> Any:
    return getattr(line, _tag(line))


def _tag(line: EventLine) -> str:
    return str(type(line).__struct_config__.tag)


def _counts(head: Session) -> dict[str, int]:
    return {
        "compactions": len(head.compaction.boundaries),
        "context_clears": len(head.context_clears),
        "interruptions": len(head.interruptions),
        "rejections": len(head.rejections),
        "rollbacks": len(head.rollbacks),
        "errors": len(head.errors),
        "orphans": len(head.orphans),
        "subagents": len(head.subagents),
        "resumes": len(head.resumes),
        "branches": len(head.branches),
        "problems": len(head.problems),
    }
