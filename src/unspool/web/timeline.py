"""The timeline of one session: its turns and events as marks along a branch, and as an outline."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from ..core import model as m
from ..core.events import iter_events
from ..core.session import Session
from ..render.event_text import timeline_label
from ..render.plain_text import plain_line
from .recent_cache import RecentCache
from .session_query import SessionQuery
from .views import TimelineMark

_MOST_MARKS = 300
"""Maximum number of marks per kind: more cannot be distinguished on a screen."""
_MOST_TURNS = 150
"""Maximum number of lines of an outline. In longer sessions, a line covers several turns."""
_MOST_LABELS = 8
_WORDS = 90
_CACHED = 8


class EventCluster(msgspec.Struct, kw_only=True):
    """The events of one kind in a turn."""

    kind: str
    """The name of the kind's mark."""
    indices: list[int]
    """Their messages."""
    label: str
    """A description of the events."""


class OutlineTurn(msgspec.Struct, kw_only=True):
    """One line of an outline: a prompt, and the events until the next one."""

    index: int
    """The message of the prompt."""
    words: str
    """Its first words."""
    is_prompt: bool = True
    """False if the line covers the messages before the first prompt."""
    more: int = 0
    """The number of further turns that the line covers."""
    clusters: list[EventCluster] = []


def timeline_marks(query: SessionQuery, branch: int = 0) -> list[TimelineMark]:
    """Return the marks of turns and events along a branch."""
    path = query.path(branch)
    length = max(1, len(path))
    found: dict[str, list[tuple[int, str]]] = {}
    for number, index in enumerate(query.prompts):
        found.setdefault("turn", []).append((index, f"turn {number + 1}"))
    for index, kind, label in _events(query.head):
        found.setdefault(kind, []).append((index, label))
    marks = [
        TimelineMark(index, round(path.position_of(index) / length, 4), kind, label)
        for kind, events in found.items()
        for index, label in _thin_out([event for event in events if event[0] in path])
    ]
    return sorted(marks, key=lambda mark: (mark.index, mark.kind))


def _events(head: Session) -> Iterator[tuple[int, str, str]]:
    for kind, event in iter_events(head):
        index = kind.timeline_index(event)
        if kind.mark is not None and index is not None:
            yield index, kind.mark.name or kind.name, timeline_label(event)


def _thin_out(events: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return events[:: -(-len(events) // _MOST_MARKS) or 1]


# --- the outline -----------------------------------------------------------------------------------------------------

_outlines: RecentCache[tuple[str, int], list[OutlineTurn]] = RecentCache(_CACHED)
"""Outlines by the version of their session and the branch."""


def outline(query: SessionQuery, branch: int = 0) -> list[OutlineTurn]:
    """Return the prompts of a branch with their first words and events; the last few outlines are cached."""
    return _outlines.get((query.version(), branch), lambda: _outline(query, branch))


def _outline(query: SessionQuery, branch: int) -> list[OutlineTurn]:
    path = query.path(branch)
    prompts = query.turn_starts(branch)
    step = max(1, -(-len(prompts) // _MOST_TURNS))
    starts = prompts[::step]
    turns = [
        OutlineTurn(index=index, words=_words(query.message(index)), more=min(step, len(prompts) - number * step) - 1)
        for number, index in enumerate(starts)
    ]
    if len(path) and (not starts or path.index_at(0) < starts[0]):
        first = path.index_at(0)
        starts, turns = (
            [first, *starts],
            [OutlineTurn(index=first, words="Start of the session", is_prompt=False), *turns],
        )
    clusters: list[dict[str, list[tuple[int, str]]]] = [{} for _ in turns]
    for index, kind, label in sorted(_events(query.head)):
        if index in path:
            clusters[max(0, bisect_right(starts, index) - 1)].setdefault(kind, []).append((index, label))
    for turn, found in zip(turns, clusters, strict=True):
        turn.clusters = [_cluster(kind, events) for kind, events in found.items()]
    # The messages before the first prompt only get a line if there are events among them.
    return turns[1:] if len(turns) > 1 and not (turns[0].is_prompt or turns[0].clusters) else turns


def _words(message: m.Message) -> str:
    texts = (block.text or "" for block in message.blocks if isinstance(block, m.Text | m.Attachment))
    return plain_line(next((text for text in texts if text.strip()), ""), _WORDS) or "Prompt without text"


def _cluster(kind: str, events: list[tuple[int, str]]) -> EventCluster:
    labels = list(dict.fromkeys(label for _, label in events))
    left_out = len(labels) - _MOST_LABELS
    text = "\n".join(labels[:_MOST_LABELS]) + (f"\nand {left_out} more" if left_out > 0 else "")
    return EventCluster(kind=kind, indices=[index for index, _ in events], label=text)
