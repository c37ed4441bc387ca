"""Search for words: from a query to SQL, and from rows to ranked hits.

What people and models said counts more than what tools printed, new text more than old, and a session with several hits
more than one with a single hit. The ranking uses no statistics of the database, so that all databases give the same
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from ..core.events import BY_NAME, AtEvent, InContext, InSubagent, Marked, OnBranch
from ..search.query import Filters, Name, Node, Query, Values, matches
from ..search.snippet import Snippet, snippet
from ..search.tokenizer import words_in
from .damage import is_placeholder
from .database import Database
from .filters import SessionFilter, containing, escaped, starting_with
from .indexed_text import AUTHORS, FIELDS, Field, no_tool_name, texts_of
from .messages import StoredMessages
from .rows import SessionRow
from .sessions import Sessions

_CANDIDATES = 600
"""The number of matches that are ranked: the most recent ones."""
_WEIGHTS: dict[Field, float] = {"user": 3.0, "answer": 2.0, "input": 1.2, "output": 1.0, "thinking": 0.8, "note": 0.6}
_HALF_LIFE_DAYS = 30.0
"""The age at which a hit counts half."""
_SUMMED = 3
"""How many hits add up to the score of a session."""
_CLOSELY = 1 << 20
"""How much of a long text is checked to find out which of several texts matched."""


class Hit(msgspec.Struct, kw_only=True):
    """A text that matches."""

    message_index: int
    field: Field
    author: str
    timestamp: datetime | None
    snippet: Snippet


class Found(msgspec.Struct, kw_only=True):
    """A session with its best hits."""

    session: SessionRow
    score: float
    hits: list[Hit]
    more: int
    """Further hits among the ranked matches."""


class Match(NamedTuple):
    """A matching row of the index."""

    session: int
    message: int
    field: int
    author: int
    at: int | None

    @property
    def weight(self) -> float:
        """How much it counts, regardless of its age."""
        return _WEIGHTS[FIELDS[self.field]]


class Search:
    """Search for words in the stored sessions."""

    def __init__(self, database: Database, sessions: Sessions, messages: StoredMessages) -> None:
        self._database = database
        self._sessions = sessions
        self._messages = messages

    def run(self, query: Query, limit: int = 20, hits: int = 3, now: datetime | None = None) -> list[Found]:
        """The best sessions, each with its best hits."""
        ranked = rank(self.matches(query, _CANDIDATES), now)[:limit]
        if not ranked:
            return []
        ids = tuple(entry.session for entry in ranked)
        rows = {row.id: row for row in self._sessions.select(SessionFilter(ids=ids))}
        return [
            Found(
                session=rows[entry.session], score=round(entry.score, 4), more=max(0, len(entry.matches) - hits),
                hits=[hit for match in entry.matches[:hits] if (hit := self._hit(match, query.match)) is not None],
            )
            for entry in ranked
        ]  # fmt: skip

    def matches(self, query: Query, limit: int) -> list[Match]:
        """All matching texts, the most recent first."""
        tables, condition, values = "part", "TRUE", list[object]()
        if query.match is not None:
            tables, condition, values = self._database.words.condition(query.match)
        filters = QueryConditions(query.filters)
        sql = f"""SELECT part.session, part.message, part.field, part.author, part.at
            FROM {tables} JOIN session ON session.id = part.session
            WHERE {condition} AND {filters.sql} ORDER BY part.id DESC LIMIT ?"""
        return [Match(*row) for row in self._database.rows(sql, *values, *filters.values, limit)]

    def sessions_with(self, filters: Filters) -> list[int]:
        """The sessions with a text that passes the filters of a query, the newest first."""
        if not filters:
            return [id for (id,) in self._database.rows("SELECT id FROM session ORDER BY id DESC")]
        chosen = QueryConditions(filters)
        sql = f"""SELECT DISTINCT part.session FROM part JOIN session ON session.id = part.session
            WHERE {chosen.sql} ORDER BY part.session DESC"""
        return [id for (id,) in self._database.rows(sql, *chosen.values)]

    def _hit(self, match: Match, node: Node | None) -> Hit | None:
        """What was found; None if the message is damaged in the store."""
        field = FIELDS[match.field]
        messages = self._messages.read(match.session, match.message, match.message + 1)
        if any(map(is_placeholder, messages)):
            return None
        texts = [text.text for message in messages for text in texts_of(message, no_tool_name) if text.field == field]
        text = texts[0] if texts else ""
        if len(texts) > 1 and node is not None:
            text = next((one for one in texts if matches(node, words_in(one[:_CLOSELY]))), text)
        at = None if match.at is None else datetime.fromtimestamp(match.at, UTC)
        return Hit(
            message_index=match.message, field=field, author=AUTHORS[match.author], timestamp=at,
            snippet=snippet(text, node),
        )  # fmt: skip


# --- filters ---------------------------------------------------------------------------------------------------------


class QueryConditions:
    """The filters of a query as SQL over the tables `part` and `session`."""

    def __init__(self, filters: Filters) -> None:
        self._texts: list[str] = []
        self.values: list[object] = []
        self._add(filters.agent, "session.agent = ?")
        self._add(filters.project, "lower(session.project) LIKE ? ESCAPE '\\'", containing)
        self._add(filters.session, "lower(session.name) LIKE ? ESCAPE '\\'", starting_with)
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
    def sql(self) -> str:
        """All conditions together."""
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
            # An unknown value is not the excluded one.
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
        case InContext(state=state):
            return _in_span("span.context = ?"), state
        case Marked(word=word):
            return _exists("place", "place", "place.kind = ?"), word
        case AtEvent() if kind.recorded.index is None:
            return "EXISTS (SELECT 1 FROM event WHERE event.session = part.session AND event.kind = ?)", name
        case AtEvent():
            return _exists("event", "event", "event.kind = ?"), name


def _named(name: Name) -> str:
    return starting_with(name.text) if name.prefix else escaped(name.text)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


# --- ranking ---------------------------------------------------------------------------------------------------------


class Ranked(NamedTuple):
    """The matches of a session, the best first."""

    session: int
    score: float
    matches: list[Match]


def rank(matches: Iterable[Match], now: datetime | None = None) -> list[Ranked]:
    """Group matches by session, the best session first."""
    seconds = (now or datetime.now(UTC)).timestamp()
    by_session: dict[int, list[tuple[float, Match]]] = {}
    for match in matches:
        days = max(0.0, seconds - match.at) / 86400 if match.at is not None else 365.0
        by_session.setdefault(match.session, []).append((match.weight / (1 + days / _HALF_LIFE_DAYS), match))
    found = []
    for session, scored in by_session.items():
        scored.sort(key=lambda pair: (-pair[0], -pair[1].message, pair[1].field))
        score = sum(value for value, _ in scored[:_SUMMED])
        found.append(Ranked(session, score, [match for _, match in scored]))
    return sorted(found, key=lambda ranked: (-ranked.score, -ranked.session))
