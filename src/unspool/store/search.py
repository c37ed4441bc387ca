"""Searching: from a query to conditions on the tables, from rows to hits in order of worth.

What people and models said counts more than what tools printed, what is newer counts more than what is older, and a
session with several hits more than one with a single one. That needs no statistics of the database, so that every
database gives the same answer.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parser  # type: ignore[import-not-found]
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from ..core.events import BY_NAME, AtEvent, InContext, InSubagent, Marked, OnBranch
from ..search.query import Filters, Name, Values
from ..search.snippet import Snippet
from .rows import SessionRow
from .text_index import AUTHORS, FIELDS, Field

CANDIDATES = 600
"""Of more matches than these, only the newest are weighed."""
_WORTH: dict[Field, float] = {"user": 3.0, "answer": 2.0, "input": 1.2, "output": 1.0, "thinking": 0.8, "note": 0.6}
_DAYS = 30.0
"""After so many days a hit is worth half."""
_COUNTED = 3
"""Hits of one session that add up."""


class Hit(msgspec.Struct, kw_only=True):
    """A place where something was found."""

    message_index: int
    field: Field
    author: str
    timestamp: datetime | None
    snippet: Snippet


class Found(msgspec.Struct, kw_only=True):
    """A session in which something was found, with its best hits."""

    session: SessionRow
    score: float
    hits: list[Hit]
    more: int
    """Further hits among the newest matches."""


class Match(NamedTuple):
    """A row of the index that fits."""

    session: int
    message: int
    field: int
    author: int
    at: int | None

    @property
    def worth(self) -> float:
        """How good it is, its age aside."""
        return _WORTH[FIELDS[self.field]]


class Conditions:
    """The filters of a query as SQL."""

    def __init__(self, filters: Filters) -> None:
        self._texts: list[str] = []
        self.values: list[object] = []
        self._add(filters.agent, "session.agent = ?")
        self._add(filters.project, "lower(session.project) LIKE ? ESCAPE '\\'", containing)
        self._add(filters.session, "lower(session.name) LIKE ? ESCAPE '\\'", _beginning)
        self._add(filters.role, "part.author = ?", AUTHORS.index)
        self._add(filters.in_, "part.field = ?", FIELDS.index)
        self._add(filters.tool, "part.tool IN (SELECT id FROM name WHERE lower(text) LIKE ? ESCAPE '\\')", _named)
        self._add(filters.model, "part.model IN (SELECT id FROM name WHERE lower(text) LIKE ? ESCAPE '\\')", containing)
        self._add(
            filters.file,
            _exists("touch JOIN name ON name.id = touch.path", "touch", "lower(name.text) LIKE ? ESCAPE '\\'"),
            containing,
        )
        self._add(filters.before, "part.at < ?", _seconds)
        self._add(filters.after, "part.at >= ?", _seconds)
        self._each(filters.branch, _branch)
        self._each(filters.is_, _is)

    @property
    def text(self) -> str:
        """All of them together."""
        return " AND ".join(self._texts) or "TRUE"

    def _add(self, values: Values[Any], sql: str, make: Callable[[Any], object] = lambda value: value) -> None:
        self._each(values, lambda value: (sql, make(value)))

    def _each(self, values: Values[Any], make: Callable[[Any], tuple[str, object]]) -> None:
        if values.wanted:
            pairs = [make(value) for value in values.wanted]
            self._texts.append("(" + " OR ".join(sql for sql, _ in pairs) + ")")
            self.values += [value for _, value in pairs]
        for value in values.unwanted:
            sql, given = make(value)
            # What is not known is not what was asked for.
            self._texts.append(f"NOT coalesce(({sql}), FALSE)")
            self.values.append(given)


def _exists(table: str, name: str, condition: str) -> str:
    here = f"{name}.session = part.session AND {name}.message = part.message"
    return f"EXISTS (SELECT 1 FROM {table} WHERE {here} AND {condition})"


def _in_span(condition: str) -> str:
    return f"""EXISTS (SELECT 1 FROM span WHERE span.session = part.session
        AND part.message BETWEEN span.first AND span.last AND {condition})"""


def _branch(value: str | int) -> tuple[str, object]:
    if value == "active":
        return f"NOT {_in_span('span.branch > ?')}", 0
    if value == "dead":
        return _in_span("span.branch > ?"), 0
    return _in_span("span.branch = ?"), value


def _is(name: str) -> tuple[str, object]:
    """The condition for messages to which a kind of event happened."""
    kind = BY_NAME[name]
    match kind.search:
        case InSubagent():
            return "session.kind = ?", "subagent"
        case OnBranch():
            return _in_span("span.branch > ?"), 0
        case InContext(state):
            return _in_span("span.context = ?"), state
        case Marked(word):
            return _exists("place", "place", "place.kind = ?"), word
        case AtEvent() if kind.recorded.index is None:
            return "EXISTS (SELECT 1 FROM event WHERE event.session = part.session AND event.kind = ?)", name
        case AtEvent():
            return _exists("event", "event", "event.kind = ?"), name


def containing(text: str) -> str:
    """A pattern for LIKE: text with anything around it."""
    return f"%{_escaped(text)}%"


def ending(text: str) -> str:
    """A pattern for LIKE: anything with text at its end."""
    return f"%{_escaped(text)}"


def _beginning(text: str) -> str:
    return f"{_escaped(text)}%"


def _named(name: Name) -> str:
    return _beginning(name.text) if name.prefix else _escaped(name.text)


def _escaped(text: str) -> str:
    """Both databases take a backslash for the sign that the next one is no pattern."""
    return re.sub(r"([%_\\])", r"\\\1", text.lower())


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


# --- ranking ---------------------------------------------------------------------------------------------------------


class Ranked(NamedTuple):
    """A session's matches, the best first."""

    session: int
    score: float
    matches: list[Match]


def rank(matches: Iterable[Match], now: datetime | None = None) -> list[Ranked]:
    """Matches by session, the best session first."""
    seconds = (now or datetime.now(UTC)).timestamp()
    by_session: dict[int, list[tuple[float, Match]]] = {}
    for match in matches:
        days = max(0.0, seconds - match.at) / 86400 if match.at is not None else 365.0
        by_session.setdefault(match.session, []).append((match.worth / (1 + days / _DAYS), match))
    found = []
    for session, scored in by_session.items():
        scored.sort(key=lambda pair: (-pair[0], -pair[1].message, pair[1].field))
        score = sum(value for value, _ in scored[:_COUNTED])
        found.append(Ranked(session, score, [match for _, match in scored]))
    return sorted(found, key=lambda ranked: (-ranked.score, -ranked.session))


# --- exact code ------------------------------------------------------------------------------------------------------


def literal_in(pattern: str) -> bytes:
    """The longest text that stands in everything a pattern finds: only where it occurs is it worth looking closer.

    Letters and digits alone, because JSON writes all else in more than one way.
    """
    try:
        parsed = sre_parser.parse(pattern)
    except re.error:
        return b""
    if parsed.state.flags & re.IGNORECASE:
        return b""
    runs = [""]
    for operator, value in parsed:
        if operator is sre.LITERAL and chr(value).isascii() and chr(value).isalnum():
            runs[-1] += chr(value)
        else:
            runs.append("")
    return max(runs, key=len).encode()
