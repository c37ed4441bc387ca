"""Tables of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from ...render.sanitize import local
from .output import short_id
from .records import EventItem, project_name
from .table import AGENT, DESCRIPTION, MESSAGE, PROJECT, SESSION, TIME, Column, print_table

EVENT = Column("event", "yellow")
_NEVER = datetime.min.replace(tzinfo=UTC)


def print_events(columns: Sequence[Column], events: Iterable[EventItem]) -> None:
    """Print events with some of the columns of `_CELLS`."""
    print_table(columns, ([_CELLS[column](event) for column in columns] for event in events))


def when(event: EventItem) -> datetime:
    """Return when an event happened, for sorting. An event without a time sorts at the end of its session."""
    return event.timestamp or event.session.ended_at or _NEVER


def message_of(event: EventItem) -> str:
    """Return the number of the message at which an event happened, for people."""
    return "" if event.message_index is None else f"#{event.message_index}"


_CELLS: dict[Column, Callable[[EventItem], str]] = {
    EVENT: lambda event: event.kind,
    AGENT: lambda event: event.session.agent,
    PROJECT: lambda event: project_name(event.session.project),
    SESSION: lambda event: short_id(event.session.name),
    MESSAGE: message_of,
    TIME: lambda event: local(event.timestamp),
    DESCRIPTION: lambda event: event.text,
}
