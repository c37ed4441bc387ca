"""Events of all sessions, page by page."""

from __future__ import annotations

from collections.abc import Sequence

from .base import Store
from .rows import EventRow

_ALL = "event JOIN session ON session.id = event.session"


def ledger(
    store: Store, kinds: Sequence[str], where: str, values: Sequence[object], limit: int, offset: int = 0
) -> tuple[list[EventRow], int]:
    """Some of the events that fit, the newest first, and how many fit."""
    condition = f"event.kind IN ({', '.join('?' * len(kinds))}) AND {where}"
    ((total,),) = store.rows(f"SELECT count(*) FROM {_ALL} WHERE {condition}", *kinds, *values)
    page = f"""(event.session, event.place) IN (SELECT event.session, event.place FROM {_ALL} WHERE {condition}
        ORDER BY event.at DESC NULLS LAST, session.id, event.place LIMIT ? OFFSET ?)"""
    return store.events(kinds, page, *kinds, *values, limit, offset), int(total)
