"""Searching for words, or for exact code with a regular expression.

A pattern that tries forever would stop the whole server, so those that are known for it are refused.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parser  # type: ignore[import-not-found]
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from ...render.plain import harmless
from ...search.query import Filters, parse
from ...search.snippet import Snippet
from ...store import Store
from ...store.parts import Part
from ...store.search import Found, Hit
from .errors import RefusedError
from .shapes import SearchAnswer, SearchAsked

_MOST_MATCHES = 2000
_SECONDS = 10.0
_AROUND = 80
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)


def search(store: Store, asked: SearchAsked) -> SearchAnswer:
    """What was said, done or printed, in all sessions."""
    if asked.regex:
        filters = parse(asked.q).filters if asked.q else Filters()
        return search_exactly(store, asked.regex, filters, asked.limit, asked.hits)
    if not asked.q.strip():
        raise RefusedError("There is nothing to look for.", "Give words in q, or a pattern in regex.")
    return SearchAnswer(found=store.search(parse(asked.q), asked.limit, asked.hits))


def search_exactly(store: Store, pattern: str, filters: Filters, limit: int, hits: int) -> SearchAnswer:
    """The places that a regular expression finds, by session."""
    check_pattern(pattern)
    until = time.monotonic() + _SECONDS
    by_session: dict[int, list[tuple[Part, int, int]]] = {}
    complete = True
    for number, (session, part, start, end) in enumerate(store.search_exactly(pattern, filters, _MOST_MATCHES + 1)):
        is_full = session not in by_session and len(by_session) == limit
        if is_full or number == _MOST_MATCHES or time.monotonic() > until:
            complete = False
            break
        by_session.setdefault(session, []).append((part, start, end))
    rows = {id: store.sessions("session.id = ?", id) for id in by_session}
    found = [
        Found(
            session=rows[id][0], score=1.0, more=max(0, len(places) - hits),
            hits=[_hit(*place) for place in places[:hits]],
        )
        for id, places in by_session.items()
        if rows[id]
    ]  # fmt: skip
    return SearchAnswer(found=found, complete=complete)


def check_pattern(pattern: str) -> None:
    """Refuse what is no pattern, and what may take forever."""
    try:
        re.compile(pattern)
        parsed = sre_parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise RefusedError(f"{pattern!r} is no regular expression: {error}.", "Escape ( ) [ ] * + ? with \\.") from None
    if _repeats_repeats(parsed):
        raise RefusedError(
            "A repetition of something that is itself repeated without end may be tried forever.",
            "Give the inner one an end, such as {0,80}; `unspool search --regex` takes it as it is.",
        )


def _repeats_repeats(parts: Iterable[Any], *, is_inside: bool = False) -> bool:
    for operator, value in parts:
        if operator in _REPEATS:
            _, most, inner = value
            is_endless = most is sre.MAXREPEAT
            if (is_endless and is_inside) or _repeats_repeats(inner, is_inside=is_inside or most > 1):
                return True
        elif any(_repeats_repeats(inner, is_inside=is_inside) for inner in _below(value)):
            return True
    return False


def _below(value: Any) -> Iterable[Iterable[Any]]:
    """The patterns inside a part of a pattern."""
    if isinstance(value, sre_parser.SubPattern):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _below(part)


def _hit(part: Part, start: int, end: int) -> Hit:
    text = part.text
    begin = max(text.rfind("\n", 0, start) + 1, start - _AROUND)
    stop = text.find("\n", end)
    last = min(stop if stop >= 0 else len(text), end + _AROUND)
    # A match may be as long as the text.
    pieces = (text[begin:start], text[start : min(end, start + 4 * _AROUND)], text[end:last])
    before, match, after = (" ".join(harmless(piece).split("\n")) for piece in pieces)
    return Hit(
        message_index=part.message, field=part.field, author=part.author,
        timestamp=None if part.at is None else datetime.fromtimestamp(part.at, UTC),
        snippet=Snippet(before + match + after, [(len(before), len(before) + len(match))]),
    )  # fmt: skip
