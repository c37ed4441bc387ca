"""The events of all sessions."""

from __future__ import annotations

import msgspec

from .compression import is_sealed, pack, unpack
from .database import Database, Row
from .filters import EventFilter
from .rows import EventRow, moment
from .sessions import COLUMNS, session_row

NewEvent = tuple[str, int | None, float | None, str | None, bytes]
"""An event to be stored: kind, message index, seconds, tool, JSON."""
StoredEvent = tuple[str, int | None, bytes]
"""An event of a known session: kind, message index, JSON."""
_SHORT = 200
"""JSON of up to this length is not worth packing."""
_TABLES = "event JOIN session ON session.id = event.session"
_ORDER = "event.at DESC NULLS LAST, session.id, event.place"


class Events:
    """Stored events."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def replace(self, session: int, events: list[NewEvent]) -> None:
        """Replace the events of a session."""
        self._database.rows("DELETE FROM event WHERE session = ?", session)
        columns = "session, place, kind, message, at, tool, data"
        rows = [(session, number, *event[:-1], _packed(event[-1])) for number, event in enumerate(events)]
        self._database.insert("event", columns, rows)

    def of_session(self, session: int) -> list[StoredEvent]:
        """The events of a session, in the order of its record."""
        sql = "SELECT kind, message, data FROM event WHERE session = ? ORDER BY place"
        return [(kind, message, _unpacked(data)) for kind, message, data in self._database.rows(sql, session)]

    def select(self, filter: EventFilter) -> list[EventRow]:
        """Events of all sessions, the most recent first."""
        return self._select(*filter.condition())

    def page(self, filter: EventFilter, limit: int, offset: int = 0) -> tuple[list[EventRow], int]:
        """One page of the events that match, the most recent first, and the total number of matches."""
        where, values = filter.condition()
        ((total,),) = self._database.rows(f"SELECT count(*) FROM {_TABLES} WHERE {where}", *values)
        # The inner query sorts without the data, which may be large.
        page = f"""(event.session, event.place) IN (SELECT event.session, event.place FROM {_TABLES} WHERE {where}
            ORDER BY {_ORDER} LIMIT ? OFFSET ?)"""
        return self._select(page, [*values, limit, offset]), int(total)

    def _select(self, where: str, values: list[object]) -> list[EventRow]:
        sql = f"""SELECT {COLUMNS}, event.kind, event.message, event.at, event.tool, event.data
            FROM {_TABLES} JOIN machine ON machine.id = session.machine WHERE {where} ORDER BY {_ORDER}"""
        return [_event_row(row) for row in self._database.rows(sql, *values)]


def _event_row(row: Row) -> EventRow:
    kind, message, at, tool, data = row[16:]
    return EventRow(
        session=session_row(row),
        kind=kind,
        message_index=message,
        timestamp=moment(at),
        tool=tool,
        event=msgspec.Raw(_unpacked(data)),
    )


def _packed(json: bytes) -> bytes:
    return min(json, pack(json), key=len) if len(json) > _SHORT else json


def _unpacked(data: bytes) -> bytes:
    # JSON never begins like packed data.
    return unpack(bytes(data)) if is_sealed(data) else bytes(data)
