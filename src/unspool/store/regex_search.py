"""Looking for exact code with a regular expression, as a program of its own: `python -m unspool.store.regex_search`.

A pattern may be tried for ever, and nothing else runs in its process meanwhile; so a server gives it one that can be
ended. What is asked comes on the standard input: an address may hold a password, which a command line would show.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime

import msgspec

from ..render.sanitize import harmless
from ..search.query import Filters, parse
from ..search.snippet import Snippet
from . import Store, open_store
from .search import Found, Hit
from .text_index import Part

BEGUN = b"\n"
"""Told before what is found. To those who read JSON it says nothing."""
_MOST_MATCHES = 2000
_AROUND = 80


class ExactAsked(msgspec.Struct):
    """What to look for, and for how long."""

    place: str
    pattern: str
    filters: str
    """As in a search for words."""
    limit: int
    hits: int
    seconds: float


class ExactFound(msgspec.Struct):
    """The places, by session."""

    found: list[Found]
    complete: bool
    """There may be more where it is not."""


def look(store: Store, asked: ExactAsked) -> ExactFound:
    """Look for it until there is enough, or the time is over."""
    until = time.monotonic() + asked.seconds
    filters = parse(asked.filters).filters if asked.filters else Filters()
    by_session: dict[int, list[tuple[Part, int, int]]] = {}
    complete = True
    matches = store.search_exactly(asked.pattern, filters, _MOST_MATCHES + 1)
    for number, (session, part, start, end) in enumerate(matches):
        is_full = session not in by_session and len(by_session) == asked.limit
        if is_full or number == _MOST_MATCHES or time.monotonic() > until:
            complete = False
            break
        by_session.setdefault(session, []).append((part, start, end))
    rows = {id: store.sessions("session.id = ?", id) for id in by_session}
    found = [
        Found(
            session=rows[id][0], score=1.0, more=max(0, len(places) - asked.hits),
            hits=[_hit(*place) for place in places[: asked.hits]],
        )
        for id, places in by_session.items()
        if rows[id]
    ]  # fmt: skip
    return ExactFound(found=found, complete=complete)


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


def main() -> None:
    """Answer what is asked on the standard input."""
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=ExactAsked)
    store = open_store(asked.place, read_only=True)
    # Whoever waits counts the time from here: beginning takes as long as the machine is busy.
    sys.stdout.buffer.write(BEGUN)
    sys.stdout.buffer.flush()
    try:
        sys.stdout.buffer.write(msgspec.json.encode(look(store, asked)))
    finally:
        store.close()


if __name__ == "__main__":
    main()
