"""Search for words: from a query to SQL, and from rows to ranked hits.

Matches are read in the order of their rank (`ranking.py`), and only as many as are needed. The order depends neither on
statistics of the database nor on row ids, so all databases return the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import msgspec

from ..core import model as m
from ..core.events import BY_NAME, AtEvent, InContext, InSubagent, Marked, OnBranch
from ..search.query import Filters, Name, Node, Query, Values, matches, without_exclusions
from ..search.snippet import Snippet, snippet
from ..search.tokenizer import words_in
from .damage import is_placeholder
from .database import Database
from .filters import (
    Condition,
    LikeSql,
    SessionFilter,
    all_of,
    containing,
    escaped,
    has_event,
    like_sql,
    starting_with,
)
from .indexed_text import AUTHORS, FIELDS, Field, no_tool_name, texts_of
from .messages import StoredMessages
from .ranking import COUNTED, bucket_of, first_rank, highest_unsettled, is_settled, rank, score, session_rank
from .redacted_search import RedactedMatches, RedactedValues
from .rows import SessionRow, moment
from .sessions import Sessions

if TYPE_CHECKING:
    from ..redact import Redactor

SearchOrder = Literal["relevance", "time"]
SEARCH_ORDERS: tuple[SearchOrder, ...] = get_args(SearchOrder)
_FEWEST = 600
"""The number of matches that are always read, to count those of each session."""
_FEWEST_REDACTED = 40
"""The same in a search without secrets, which has to read the messages."""
_MOST_COUNTED = 30
"""The number of matches of a session after which no more are counted in a search without secrets."""
_CHECKED_CHARACTERS = 1 << 20
"""The number of characters of a text that are checked to find out which of several texts matched."""


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
    """Further hits among the matches that were read."""


class SearchPage(NamedTuple):
    """Some of the sessions that match, the best first."""

    found: list[Found]
    more: bool
    """Whether further sessions match."""


class Match(NamedTuple):
    """A matching row of the index."""

    session: int
    message: int
    field: int
    author: int
    at: int | None
    name: str
    """The id of the session."""
    position: int
    """The position in the index: the id, or the first id of the bucket."""

    @property
    def rank(self) -> int:
        """The rank of the text: higher is better."""
        return rank(self.field, self.at)

    def sort_key(self) -> tuple[int, str, int, int, int]:
        """The key that sorts the best match first. Nothing in it depends on the order in which texts were stored."""
        return -self.rank, self.name, -self.message, self.field, self.session


class _Ranked(NamedTuple):
    """A session with its matches, the best first."""

    session: int
    rank: int
    matches: list[Match]

    def sort_key(self) -> tuple[object, ...]:
        """The key that sorts the best session first."""
        return -self.rank, self.matches[0].sort_key()


class _Ranking:
    """Ranks sessions while matches are read, and knows when it has read enough."""

    def __init__(self, wanted: int, fewest: int) -> None:
        """`wanted` is the number of best sessions that have to be known, from at least the `fewest` matches."""
        self._wanted = wanted
        self._fewest = fewest
        self._by_session: dict[int, list[Match]] = {}
        self._best: list[int] = []
        """The best rank of each session, in descending order."""
        self._below = 0
        self._read = 0

    def add(self, bucket: list[Match]) -> None:
        """Add all matches of a bucket, the best first."""
        self._below = first_rank(bucket_of(bucket[0].position))
        self._read += len(bucket)
        for match in bucket:
            matches = self._by_session.setdefault(match.session, [])
            if not matches:
                self._best.append(match.rank)
            matches.append(match)

    @property
    def is_complete(self) -> bool:
        """Whether no unread match can change which sessions are the best, or their order."""
        if self._read < self._fewest or len(self._best) < self._wanted:
            return False
        if not is_settled(self._best[self._wanted - 1], self._below):
            return False
        sessions = zip(self._best, self._by_session.values(), strict=True)
        settled = (_rank_of(matches) for best, matches in sessions if is_settled(best, self._below))
        enough = highest_unsettled(self._below)
        return sum(1 for rank in settled if rank >= enough) >= self._wanted

    def sessions(self) -> list[_Ranked]:
        """The sessions, the best first."""
        found = [_Ranked(session, _rank_of(matches), matches) for session, matches in self._by_session.items()]
        return sorted(found, key=_Ranked.sort_key)


def _rank_of(matches: list[Match]) -> int:
    return session_rank([match.rank for match in matches[:COUNTED]])


class Search:
    """Search for words in the stored sessions."""

    def __init__(self, database: Database, sessions: Sessions, messages: StoredMessages) -> None:
        self._database = database
        self._sessions = sessions
        self._messages = messages

    def run(
        self,
        query: Query,
        limit: int = 20,
        hits: int = 3,
        *,
        offset: int = 0,
        order: SearchOrder = "relevance",
        now: datetime | None = None,
        among: SessionFilter | None = None,
        redactor: Redactor | None = None,
    ) -> SearchPage:
        """Return up to `limit` sessions after the first `offset`, each with its first hits.

        With `among`, only sessions that match this filter. With a redactor, words and filters are compared with texts
        and values without their secrets, so that these can neither be seen nor guessed.
        """
        redacted = None
        candidates = query.match
        if redactor is not None:
            redacted = RedactedMatches(self._messages, query.match, redactor, max(COUNTED, hits))
            # A word must not exclude a text because it occurs in a secret.
            candidates = None if query.match is None else without_exclusions(query.match)
        # One transaction for all reads is cheaper for a server than one for each message.
        with self._database.snapshot():
            condition = self._condition(query.filters, among, redactor)
            read = self._best if order == "relevance" else self._latest
            ranked = read(candidates, condition, offset + limit + 1, redacted)
            shown = ranked[offset : offset + limit]
            ids = tuple(entry.session for entry in shown)
            rows = {row.id: row for row in self._sessions.select(SessionFilter(ids=ids))} if ids else {}
            seconds = (now or datetime.now(UTC)).timestamp()
            found = []
            for entry in shown:
                if entry.session in rows:
                    first = self._hits(entry.session, entry.matches[:hits], query.match, redactor)
                    more = len(entry.matches[hits:])
                    if redacted is not None:
                        more += len(redacted.further(entry.session, _MOST_COUNTED - len(entry.matches)))
                    points = float(f"{score(entry.rank, seconds):.4g}")
                    found.append(Found(session=rows[entry.session], score=points, hits=first, more=more))
        return SearchPage(found, len(ranked) > offset + limit)

    def _best(
        self, node: Node | None, condition: Condition, wanted: int, redacted: RedactedMatches | None
    ) -> list[_Ranked]:
        """At least the first `wanted` sessions, those with the best matches first."""
        ranking = _Ranking(wanted, _FEWEST if redacted is None else _FEWEST_REDACTED)
        with closing(self._buckets(node, condition)) as buckets:
            for bucket in buckets:
                # A bucket with nothing but secrets must make no difference.
                if matches := bucket if redacted is None else redacted.select(bucket):
                    ranking.add(matches)
                    if ranking.is_complete:
                        break
        return ranking.sessions()

    def _latest(
        self, node: Node | None, condition: Condition, wanted: int, redacted: RedactedMatches | None
    ) -> list[_Ranked]:
        """At least the first `wanted` sessions, those with the latest matches first."""
        found: dict[int, list[Match]] = {}
        fewest, number = _FEWEST if redacted is None else _FEWEST_REDACTED, 0
        order = "part.at DESC NULLS LAST, session.name, part.message DESC, part.field, part.session"
        with closing(self._matches(node, condition, order)) as matches:
            for match in matches:
                if redacted is not None and not redacted.select((match,)):
                    continue
                if number >= fewest and len(found) >= wanted:
                    break
                found.setdefault(match.session, []).append(match)
                number += 1
        return [_Ranked(session, _rank_of(matches), matches) for session, matches in found.items()]

    def matches(self, query: Query, limit: int) -> list[Match]:
        """The best matching texts."""
        with closing(self._buckets(query.match, self._condition(query.filters))) as buckets:
            return list(islice(chain.from_iterable(buckets), limit))

    def _buckets(self, node: Node | None, condition: Condition) -> Generator[list[Match]]:
        """All matches by bucket, the best first, read as they are needed. The index only sorts them by bucket."""
        with closing(self._matches(node, condition)) as matches:
            for _, bucket in groupby(matches, lambda match: bucket_of(match.position)):
                yield sorted(bucket, key=Match.sort_key)

    def _matches(self, node: Node | None, condition: Condition, order: str = "") -> Generator[Match]:
        """All matches, read as they are needed, by default in the order of the index."""
        words = self._database.words
        for index in (words.index(node),) if order else words.in_order(node):
            sql = f"""SELECT part.session, part.message, part.field, part.author, part.at, session.name,
                    {index.position}
                FROM {index.tables} JOIN session ON session.id = part.session
                WHERE {index.condition} AND {condition.sql}
                ORDER BY {order or f"{index.position} DESC"}"""
            with closing(self._database.iterate(sql, *index.values, *condition.values)) as rows:
                yield from map(Match._make, rows)

    def _condition(
        self, filters: Filters, among: SessionFilter | None = None, redactor: Redactor | None = None
    ) -> Condition:
        like = like_sql if redactor is None else RedactedValues(self._database, redactor).like
        chosen = QueryConditions(filters, like)
        return all_of([Condition(chosen.sql, chosen.values), among.condition() if among is not None else None])

    def sessions_with(self, filters: Filters, redactor: Redactor | None = None) -> list[int]:
        """The ids of the sessions with a text that passes the filters of a query, the newest first."""
        condition, values = "TRUE", list[object]()
        if filters:
            condition, values = self._condition(filters, redactor=redactor)
            condition = f"EXISTS (SELECT 1 FROM part WHERE part.session = session.id AND {condition})"
        sql = f"SELECT id FROM session WHERE {condition} ORDER BY ended DESC NULLS LAST, name, id"
        return [id for (id,) in self._database.rows(sql, *values)]

    def _hits(self, session: int, matches: list[Match], node: Node | None, redactor: Redactor | None) -> list[Hit]:
        """The hits in a session, except for messages that are damaged in the store."""
        messages = self._messages.read_each(session, (match.message for match in matches))
        found = ((match, messages.get(match.message)) for match in matches)
        intact = [(match, message) for match, message in found if message is None or not is_placeholder(message)]
        if redactor is None:
            return [_hit(match, message, node) for match, message in intact]
        redacted = ((match, redactor.message(message)) for match, message in intact if message is not None)
        return [_hit(match, message, node) for match, message in redacted]


def _hit(match: Match, message: m.Message | None, node: Node | None) -> Hit:
    field = FIELDS[match.field]
    found = texts_of(message, no_tool_name) if message is not None else []
    texts = [text.text for text in found if text.field == field]
    text = texts[0] if texts else ""
    if len(texts) > 1 and node is not None:
        text = next((one for one in texts if matches(node, words_in(one[:_CHECKED_CHARACTERS]))), text)
    return Hit(
        message_index=match.message,
        field=field,
        author=AUTHORS[match.author],
        timestamp=moment(match.at),
        snippet=snippet(text, node),
    )


# --- filters ---------------------------------------------------------------------------------------------------------


class QueryConditions:
    """The filters of a query as SQL over the tables `part` and `session`."""

    def __init__(self, filters: Filters, like: LikeSql = like_sql) -> None:
        """`like` returns the SQL that compares a column with a pattern."""
        self._like = like
        self._texts: list[str] = []
        self.values: list[object] = []
        self._add(filters.agent, "session.agent = ?")
        self._each(filters.project, lambda text: self._is_like("session.project", containing(text)))
        self._each(filters.session, lambda text: self._is_like("session.name", starting_with(text)))
        self._add(filters.role, "part.author = ?", AUTHORS.index)
        self._add(filters.in_, "part.field = ?", FIELDS.index)
        self._each(filters.tool, lambda name: self._has_name("part.tool", _named(name)))
        self._each(filters.model, lambda text: self._has_name("part.model", containing(text)))
        self._each(filters.file, self._touches)
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
            # A row without a value does not have the excluded one.
            self._texts.append(f"NOT coalesce(({sql}), FALSE)")
            self.values.append(given)

    def _is_like(self, column: str, pattern: str) -> tuple[str, object]:
        return self._like(column, pattern), pattern

    def _has_name(self, column: str, pattern: str) -> tuple[str, object]:
        return f"{column} IN (SELECT id FROM name WHERE {self._like('name.text', pattern)})", pattern

    def _touches(self, text: str) -> tuple[str, object]:
        pattern = containing(text)
        return _exists("touch JOIN name ON name.id = touch.path", "touch", self._like("name.text", pattern)), pattern


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
    """The condition for messages that a kind of event happened to, with its value."""
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
            return has_event("part.session"), name
        case AtEvent():
            return _exists("event", "event", "event.kind = ?"), name


def _named(name: Name) -> str:
    return starting_with(name.text) if name.prefix else escaped(name.text)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
