"""Data that other formats have no fields for: the agent, branches, and all events as lines of the stream format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from .._version import __version__
from ..agents import agent_named
from ..core import model as m
from ..core.session import Session
from ..core.stream import event_lines
from .values import to_plain

NAMESPACE = "unspool"
"""The key of this data in other formats."""


class Recorded(NamedTuple):
    """An event of the record."""

    message_index: int | None
    """The message at which it happened."""
    event: m.Event
    line: dict[str, Any]
    """The event as a line of the stream format."""


def recorded_events(session: Session) -> Iterator[Recorded]:
    """Yield all events by kind, including those inherited from the session that this one was forked from."""
    for index, line in event_lines(session):
        tag, fields = line.__struct_config__.tag, line.__struct_fields__
        plain = {name: to_plain(value) for name in fields if (value := getattr(line, name)) is not False}
        at = index if index is not None and index < len(session.messages) else None
        yield Recorded(at, getattr(line, fields[0]), {"type": tag, **plain})


class Extension:
    """The events of a session, by message."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._by_message: dict[int, list[dict[str, Any]]] = {}
        self._others: list[dict[str, Any]] = []
        for index, _, line in recorded_events(session):
            (self._others if index is None else self._by_message.setdefault(index, [])).append(line)

    def facts(self) -> dict[str, Any]:
        """Return the facts about the session."""
        info = self._session.info
        kept = {
            "version": __version__, "schema": self._session.schema, "agent": info.agent,
            "agent_title": agent_named(info.agent).info.title, "kind": info.kind, "status": info.status,
            "title": info.title, "project": info.project, "git": info.git, "origin": info.origin,
            "parent": info.parent, "versions": info.versions, "models": info.models, "usage": info.usage,
            "started_at": info.started_at, "ended_at": info.ended_at, "tip": info.tip,
        }  # fmt: skip
        return {name: to_plain(value) for name, value in kept.items() if value is not None}

    def at(self, indices: list[int]) -> list[dict[str, Any]]:
        """Return the events at these messages."""
        return [event for index in indices for event in self._by_message.get(index, ())]

    def elsewhere(self, shown: set[int]) -> list[dict[str, Any]]:
        """Return the events at none of these messages."""
        rest = [event for index, events in self._by_message.items() if index not in shown for event in events]
        return rest + self._others


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None and value is not msgspec.UNSET}
