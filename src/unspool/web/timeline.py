"""The timeline of one session: its turns and events as marks along a branch."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.events import iter_events
from ..core.session import Session
from ..render.event_text import timeline_label
from .session_query import SessionQuery
from .views import TimelineMark

_MOST_MARKS = 300
"""Per kind: more cannot be distinguished on a screen."""


def timeline_marks(query: SessionQuery, branch: int = 0) -> list[TimelineMark]:
    """Turns and events along a branch."""
    path = query.path(branch)
    length = max(1, len(path))
    found: dict[str, list[tuple[int, str]]] = {}
    for number, index in enumerate(query.prompts):
        found.setdefault("turn", []).append((index, f"turn {number + 1}"))
    for index, kind, label in _events(query.head):
        found.setdefault(kind, []).append((index, label))
    marks = [
        TimelineMark(index, round(path.position_of(index) / length, 4), kind, label)
        for kind, places in found.items()
        for index, label in _thin_out([place for place in places if place[0] in path])
    ]
    return sorted(marks, key=lambda mark: (mark.index, mark.kind))


def _events(head: Session) -> Iterator[tuple[int, str, str]]:
    for kind, event in iter_events(head):
        index = kind.timeline_index(event)
        if kind.mark is not None and index is not None:
            yield index, kind.mark.name or kind.name, timeline_label(event)


def _thin_out(places: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return places[:: -(-len(places) // _MOST_MARKS) or 1]
