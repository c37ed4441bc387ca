"""The stream format: the same content as the record, as many small lines in reading order.

A session begins with a `session` line and ends with an `end` line that counts what was between them. Events follow
the message they belong to; those that belong to no message, and the annotations of a person, come before the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import msgspec

from . import model as m
from .annotations import Annotation
from .events import BY_NAME, EVENT_KINDS, EventKind, no_events
from .session import Session


class SessionLine(msgspec.Struct, tag="session"):
    """The head of a session."""

    schema: str
    session: m.SessionInfo


class MessageLine(msgspec.Struct, tag="message"):
    """A message."""

    message: m.Message


class EventLine(msgspec.Struct):
    """An event. Each kind of the table has a line of its own, such as `RejectionLine`, with the event in a field."""


class AnnotationLine(msgspec.Struct, tag="annotation"):
    """A pin, a note or a tag of a person."""

    annotation: Annotation


class EndLine(msgspec.Struct, tag="end"):
    """The end of a session."""

    end: m.End


def _event_line(kind: EventKind) -> type[EventLine]:
    fields: list[Any] = [(kind.tag, kind.struct)]
    if kind.recorded.group is not None:
        # It happened in the session this one was forked from.
        fields.append(("inherited", bool, False))
    line: Any = msgspec.defstruct(
        "".join(word.title() for word in kind.tag.split("_")) + "Line",
        fields,
        bases=(EventLine,),
        tag=kind.tag,
        omit_defaults=True,
        module=__name__,
        namespace={"__doc__": f"{kind.noun[0].upper()}{kind.noun[1:]}."},
    )
    return line  # type: ignore[no-any-return]


EVENT_LINES = {kind.name: _event_line(kind) for kind in EVENT_KINDS}
"""The Struct of the stream line of each kind of event."""
_KINDS = {line: BY_NAME[name] for name, line in EVENT_LINES.items()}

if TYPE_CHECKING:
    StreamLine: TypeAlias = SessionLine | MessageLine | EventLine | AnnotationLine | EndLine
else:
    StreamLine = Union[(SessionLine, MessageLine, *EVENT_LINES.values(), AnnotationLine, EndLine)]


def iter_stream(session: Session) -> Iterator[StreamLine]:
    """Yield the stream lines of a record."""
    return stream_lines(session, session.messages)


def stream_lines(head: Session, messages: Iterable[m.Message]) -> Iterator[StreamLine]:
    """Yield the stream lines of a record whose messages are passed separately, one at a time."""
    events = sorted(((_LAST if index is None else index, line) for index, line in event_lines(head)), key=itemgetter(0))
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
    yield from map(AnnotationLine, head.annotations)
    counts = {"messages": count, **_counts(head)}
    yield EndLine(m.End(head.info.id, counts))


def collect(lines: Iterable[StreamLine]) -> Iterator[Session]:
    """Build whole records from stream lines."""
    for line in lines:
        if isinstance(line, SessionLine):
            session = empty(line.session)
        elif isinstance(line, MessageLine):
            session.messages.append(line.message)
        elif isinstance(line, AnnotationLine):
            session.annotations.append(line.annotation)
        elif isinstance(line, EndLine):
            # In a log that is out of order, a branch may begin before another one and still have the higher number.
            session.branches.sort(key=lambda branch: branch.id)
            yield session
        else:
            kind = _KINDS[type(line)]
            is_inherited = getattr(line, "inherited", False)
            (kind.inherited(session) if is_inherited else kind.of(session)).append(getattr(line, kind.tag))


def empty(info: m.SessionInfo) -> Session:
    """Return a record without messages and events."""
    return Session(info=info, messages=[], **no_events())


_LAST = 1 << 62


def event_lines(head: Session) -> Iterator[tuple[int | None, EventLine]]:
    """All events of a record, kind by kind, each with the index of the message at which it happened."""
    for kind in EVENT_KINDS:
        line = EVENT_LINES[kind.name]
        for event in kind.inherited(head):
            yield kind.index_of(event), line(event, inherited=True)
        for event in kind.of(head):
            yield kind.index_of(event), line(event)


def _counts(head: Session) -> dict[str, int]:
    return {kind.count_name: len(kind.of(head)) for kind in EVENT_KINDS}
