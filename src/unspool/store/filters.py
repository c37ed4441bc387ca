"""Typed filters for lists of sessions and events, and their translation to SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple, TypeAlias

import msgspec

from ..core import model as m

LikeSql: TypeAlias = Callable[[str, str], str]
"""Returns SQL that compares a column with a LIKE pattern, as `like_sql` does."""


class Condition(NamedTuple):
    """An SQL expression over the tables of a filter, with the values of its placeholders."""

    sql: str
    values: list[object]


class SessionFilter(msgspec.Struct, kw_only=True, frozen=True):
    """A filter for sessions. A field that is not set excludes nothing."""

    ids: tuple[int, ...] | None = None
    without: tuple[int, ...] = ()
    """Ids to exclude."""
    machine: int | None = None
    agent: str | None = None
    agents: tuple[str, ...] | None = None
    """Any of these agents."""
    name: str | None = None
    name_like: str | None = None
    """The id, or the last part of it, begins with this text, ignoring case."""
    kind: m.Kind | None = None
    status: str | None = None
    project: str | None = None
    """The exact path."""
    projects: tuple[str, ...] | None = None
    """One of these paths."""
    project_contains: str | None = None
    text: str | None = None
    """Occurs in the title, the project, the id or the agent."""
    has: str | None = None
    """Has an event of this kind."""
    model: str | None = None
    """The name of a model that replied."""
    has_all: tuple[str, ...] = ()
    """Has an event of each of these kinds."""
    parents: tuple[str, ...] | None = None
    """Was started by one of these sessions."""
    origin: str | None = None
    """Has this session as its origin."""
    file: str | None = None
    """Was read from the file at this path."""
    is_gone: bool | None = None
    """Whether its files were deleted."""
    is_empty: bool | None = None
    is_nested: bool | None = None
    """Whether it is a sub-agent whose parent is in the store."""
    active_since: datetime | None = None
    """Was last written to at this time or later."""
    started_before: datetime | None = None
    maybe_live_since: float | None = None
    """An agent has it open, or wrote to it after this time (in seconds)."""

    def condition(self) -> Condition:
        """The filter as SQL over the table `session`."""
        return all_of(
            [
                *self._identity(),
                *self._content(),
                _maybe("session.ended >= ?", _seconds(self.active_since)),
                _maybe("session.started < ?", _seconds(self.started_before)),
                _maybe(LIVE, self.maybe_live_since),
            ]
        )

    def within(self, column: str) -> Condition | None:
        """The filter as SQL over a column with ids of sessions; None if it excludes nothing."""
        condition = self.condition()
        if condition == all_of([]):
            return None
        return Condition(f"{column} IN (SELECT session.id FROM session WHERE {condition.sql})", condition.values)

    def in_time_range(self, column: str) -> Condition:
        """The time range of the filter as SQL over a column with a time in seconds."""
        since, until = _seconds(self.active_since), _seconds(self.started_before)
        return all_of([_maybe(f"{column} >= ?", since), _maybe(f"{column} < ?", until)])

    def _identity(self) -> list[Condition | None]:
        like = None
        if self.name_like is not None:
            # Each part of the id of a sub-agent may be shortened.
            pattern = starting_with(self.name_like).replace("/", "%/")
            name = like_sql("session.name", pattern)
            like = Condition(f"({name} OR {name})", [pattern, f"%/{pattern}"])
        return [
            _any_of("session.id", self.ids),
            _none_of("session.id", self.without),
            _maybe("session.machine = ?", self.machine),
            _maybe("session.agent = ?", self.agent),
            _any_of("session.agent", self.agents),
            _maybe("session.name = ?", self.name),
            like,
            _maybe("session.kind = ?", self.kind),
            _any_of("session.parent", self.parents),
            _maybe("session.origin = ?", self.origin),
            _maybe(_HAS_FILE, self.file),
        ]

    def _content(self) -> list[Condition | None]:
        text = None
        if self.text:
            columns, pattern = ("title", "project", "name", "agent"), containing(self.text)
            sql = " OR ".join(like_sql(f"session.{column}", pattern) for column in columns)
            text = Condition(f"({sql})", [pattern] * len(columns))
        project = containing(self.project_contains) if self.project_contains else None
        return [
            text,
            _maybe("session.status = ?", self.status),
            _maybe("session.project = ?", self.project),
            _any_of("session.project", self.projects),
            _maybe(like_sql("session.project", project or ""), project),
            _maybe(_HAS_EVENT, self.has),
            _maybe(_HAS_MODEL, self.model),
            *(_maybe(_HAS_EVENT, kind) for kind in self.has_all),
            _flag("session.gone_at IS NOT NULL", self.is_gone),
            _flag("session.messages = 0", self.is_empty),
            _flag(_NESTED, self.is_nested),
        ]


LIVE = "(session.gone_at IS NULL AND (session.status IN ('running', 'waiting') OR session.ended > ?))"


def has_event(session: str) -> str:
    """The condition that a session has an event of a kind; `session` is the column with its id."""
    # No event has a negative place. Without this, SQLite would go through all events of the kind for each session.
    return f"EXISTS (SELECT 1 FROM event WHERE event.session = {session} AND event.place >= 0 AND event.kind = ?)"


_HAS_EVENT = has_event("session.id")
_HAS_MODEL = """EXISTS (SELECT 1 FROM usage_slot WHERE usage_slot.session = session.id
    AND usage_slot.model = (SELECT id FROM name WHERE text = ?))"""
_HAS_FILE = """EXISTS (SELECT 1 FROM session_file JOIN file ON file.id = session_file.file
    WHERE session_file.session = session.id AND file.path = ?)"""
_NESTED = """(session.kind <> 'main' AND (SELECT 1 FROM session AS above
    WHERE above.machine = session.machine AND above.agent = session.agent AND above.name = session.parent
    AND above.messages > 0 LIMIT 1) IS NOT NULL)"""
"""Listed below another session. Sessions without messages are not listed, so nothing is below them.

Not with EXISTS: PostgreSQL would then read all sessions before it returns the first.
"""


class EventFilter(msgspec.Struct, kw_only=True, frozen=True):
    """A filter for events."""

    kinds: tuple[str, ...]
    sessions: SessionFilter = SessionFilter()
    tool: str | None = None
    since: datetime | None = None
    """An event without a time is treated as if it happened at the end of its session."""
    until: datetime | None = None

    def condition(self) -> Condition:
        """The filter as SQL over the tables `event` and `session`."""
        at = "coalesce(event.at, session.ended)"
        tool = lowered(self.tool) if self.tool else None
        return all_of(
            [
                _any_of("event.kind", self.kinds),
                self.sessions.condition(),
                _maybe(f"{lowered_sql('event.tool', tool or '')} = ?", tool),
                _maybe(f"{at} >= ?", _seconds(self.since)),
                _maybe(f"{at} < ?", _seconds(self.until)),
            ]
        )


# --- SQL -------------------------------------------------------------------------------------------------------------


def containing(text: str) -> str:
    """A LIKE pattern for lower-case text that contains `text`."""
    return f"%{escaped(text)}%"


def starting_with(text: str) -> str:
    """A LIKE pattern for lower-case text that starts with `text`."""
    return f"{escaped(text)}%"


def escaped(text: str) -> str:
    """Lower-case text in which a backslash escapes the wildcards of LIKE."""
    return re.sub(r"([%_\\])", r"\\\1", lowered(text))


def like_sql(column: str, pattern: str) -> str:
    """SQL that compares a column, ignoring case, with the pattern, which is passed as a value."""
    return f"{lowered_sql(column, pattern)} LIKE ? ESCAPE '\\'"


def is_like(text: str, pattern: str) -> bool:
    """Whether a text matches a pattern, as `like_sql` compares it in the database."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    expression = "".join(".*" if part == "%" else re.escape(part[-1]) for part in parts)
    return re.fullmatch(expression, lowered(text), re.DOTALL) is not None


def lowered(text: str) -> str:
    """Text in lower case, letter by letter, as `lowered_sql` compares it."""
    return "".join(lower if len(lower := letter.lower()) == 1 else letter for letter in text)


def lowered_sql(column: str, text: str) -> str:
    """SQL for a column in lower case, to be compared with a text in lower case.

    `lower` only knows the letters of ASCII, or those of the locale of the database, so the others are replaced.
    """
    letters = ((letter, letter.upper()) for letter in sorted(set(text)) if not letter.isascii())
    pairs = [(lower, upper) for lower, upper in letters if upper != lower and upper.lower() == lower]
    if not pairs:
        return f"lower({column})"
    lower, upper = ("".join(letters) for letters in zip(*pairs, strict=True))
    return f"translate(lower({column}), '{upper}', '{lower}')"


def _maybe(sql: str, value: object) -> Condition | None:
    return Condition(sql, [value]) if value is not None else None


def _flag(sql: str, wanted: bool | None) -> Condition | None:
    return None if wanted is None else Condition(sql if wanted else f"NOT ({sql})", [])


def _any_of(column: str, values: Iterable[object] | None) -> Condition | None:
    if values is None:
        return None
    found = list(values)
    return Condition(f"{column} IN ({', '.join('?' * len(found))})" if found else "FALSE", found)


def _none_of(column: str, values: Iterable[object]) -> Condition | None:
    found = list(values)
    return Condition(f"{column} NOT IN ({', '.join('?' * len(found))})", found) if found else None


def all_of(conditions: Iterable[Condition | None]) -> Condition:
    """Combine conditions with AND, skipping None."""
    given = [condition for condition in conditions if condition is not None]
    sql = " AND ".join(condition.sql for condition in given)
    return Condition(sql or "TRUE", [value for condition in given for value in condition.values])


def _seconds(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment is not None else None
