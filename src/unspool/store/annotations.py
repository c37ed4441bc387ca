"""Pins, notes and tags of this machine's user. They name the session, so they survive when it is stored again."""

from __future__ import annotations

import time

from ..core.annotations import Annotation, AnnotationKind
from ..core.errors import NotFoundError, UsageError
from .database import Database
from .rows import moment

LONGEST = 10_000
"""The largest number of characters in a note."""
_LONGEST_TAG = 60
_MOST = 2_000
"""The largest number of annotations of one session."""


class Annotations:
    """Reads and writes annotations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, agent: str, name: str) -> list[Annotation]:
        """The annotations of a session: tags by name, then the rest by message and time."""
        sql = """SELECT id, kind, text, message, at FROM annotation WHERE machine = ? AND agent = ? AND name = ?
            ORDER BY id"""
        rows = self._database.rows(sql, self._database.machine, agent, name)
        found = [
            Annotation(id=id, kind=kind, text=text, message_index=message, at=moment(at))
            for id, kind, text, message, at in rows
        ]
        return sorted(found, key=_order)

    def add(self, agent: str, name: str, kind: AnnotationKind, text: str = "", message: int | None = None) -> None:
        """Add an annotation. The same tag or pin is added only once."""
        text = text.strip()
        if not text and kind != "pin":
            raise UsageError(f"A {kind} cannot be empty")
        if len(text) > (limit := _LONGEST_TAG if kind == "tag" else LONGEST):
            raise UsageError(f"A {kind} can have at most {limit:,} characters; this one has {len(text):,}")
        known = self.of(agent, name)
        if kind != "note" and any((one.kind, one.text, one.message_index) == (kind, text, message) for one in known):
            return
        if len(known) >= _MOST:
            raise UsageError(f"A session can have at most {_MOST:,} pins, notes and tags")
        row = (self._database.machine, agent, name, message, kind, text, time.time())
        self._database.insert("annotation", "machine, agent, name, message, kind, text, at", [row])

    def remove(self, agent: str, name: str, id: int) -> None:
        """Remove an annotation of a session."""
        if all(one.id != id for one in self.of(agent, name)):
            raise NotFoundError(f"session {name} has no pin, note or tag {id}; it may have been removed already")
        self._database.rows("DELETE FROM annotation WHERE id = ? AND machine = ?", id, self._database.machine)


def _order(one: Annotation) -> tuple[bool, str, int, int]:
    is_tag = one.kind == "tag"
    message = -1 if one.message_index is None else one.message_index
    return not is_tag, one.text.casefold() if is_tag else "", message, one.id
