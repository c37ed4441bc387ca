"""Explains what a record says about a message: by which rule, from which lines, and how certain it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from . import model as m
from .events import EventKind, iter_events
from .rules import Rule, Rules, find_rule
from .session import Session


class Line(msgspec.Struct, frozen=True):
    """A line of a log."""

    path: str
    line: int
    offset: int
    message_index: int


class Fact(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One thing that the record says about a message."""

    about: str
    """`author`, `link`, `branch`, `context`, or the kind of an event."""
    says: str
    """What the record says."""
    rule: str | None = None
    """The condition in the files that leads to it."""
    otherwise: str | None = None
    """What would have led to a different result."""
    evidence: str | None = None
    """The evidence for it in the files, in the words of the record."""
    confidence: float = 1.0
    lines: list[Line] = []
    """The lines that it is based on, in addition to the message's own."""


class Explanation(msgspec.Struct, kw_only=True):
    """What a record says about one message, and why."""

    session: str
    agent: str
    versions: list[str]
    message_index: int
    line: Line
    facts: list[Fact]


class Explainer:
    """Explains the messages of one session."""

    def __init__(self, head: Session, message_at: Callable[[int], m.Message], rules: Rules) -> None:
        """`head` needs no messages: `message_at` returns one by its index, and raises IndexError if there is none."""
        self._session = head
        self._message_at = message_at
        self._rules = rules
        self._files = head.info.files

    def explain(self, index: int) -> Explanation:
        """Explain one message."""
        session = self._session
        message = self._message_at(index)
        return Explanation(
            session=session.id,
            agent=session.agent,
            versions=session.info.versions,
            message_index=index,
            line=self._line(index),
            facts=[*self._about_message(message), *self._about_events(index)],
        )

    def _line(self, index: int) -> Line:
        source = self._message_at(index).source
        return Line(self._files[source.file].path, source.line, source.offset, index)

    def _lines(self, indices: Iterable[int | None], own: int) -> list[Line]:
        return [self._line(index) for index in sorted({i for i in indices if i is not None and i != own})]

    # --- the message itself ---

    def _about_message(self, message: m.Message) -> Iterator[Fact]:
        yield self._fact("author", message.author, message.author)
        if message.link == "stitched":
            yield self._fact("link", "stitched", "attached to the message before it")
        if message.branch:
            branch = self._session.branches[message.branch - 1]
            lines = self._lines((branch.root_index, branch.parent_index), message.index)
            yield self._fact("branch", branch.reason, f"on branch {branch.id} ({branch.reason})", lines=lines)
        causes = self._lines(self._removed_at(message), message.index)
        yield self._fact("context", message.context, message.context, lines=causes)

    def _removed_at(self, message: m.Message) -> Iterator[int | None]:
        """The messages with the events that removed a message from the context."""
        session = self._session
        if message.context == "compacted":
            for boundary in session.compaction.boundaries:
                if message.index in boundary.replaced_message_indices:
                    yield boundary.message_index
        elif message.context == "cleared":
            yield from (clear.after_message_index for clear in session.context_clears)

    # --- events ---

    def _about_events(self, index: int) -> Iterator[Fact]:
        for kind, event in iter_events(self._session):
            named = [*_indices(event)]
            if kind.index_of(event) == index or (index in named and kind.name != "branch"):
                yield self._event_fact(kind, event, named, index)

    def _event_fact(self, kind: EventKind, event: Any, named: list[int], index: int) -> Fact:
        evidence = getattr(event, "evidence", None) or getattr(event, "reason", None)
        at = kind.index_of(event)
        says = kind.noun if at in (index, None) else f"part of {kind.noun} at #{at}"
        # A compaction may name thousands of messages: its first and last lines are enough.
        near = named if len(named) <= _SHOWN_LINES else [named[0], named[-1]]
        return self._fact(
            kind.name,
            str(evidence or ""),
            says,
            confidence=getattr(event, "confidence", 1.0),
            lines=self._lines((*near, at), index),
            evidence=getattr(event, "evidence", None) or getattr(event, "detail", None),
        )

    def _fact(self, about: str, value: str, says: str, **more: Any) -> Fact:
        rule: Rule | None = find_rule(about, value, self._rules)
        return Fact(
            about=about,
            says=says,
            rule=rule.text if rule is not None else None,
            otherwise=rule.otherwise if rule is not None else None,
            **more,
        )


_SHOWN_LINES = 8


def _indices(event: Any) -> Iterator[int]:
    """Yield the indices of all messages that an event refers to."""
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if name.endswith("_index") and isinstance(value, int):
            yield value
        elif name.endswith("_indices"):
            yield from value
