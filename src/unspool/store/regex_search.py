"""Search with a regular expression, in this process or as a program: `python -m unspool.store.regex_search`.

Matching a pattern can take practically forever, and cannot be interrupted within a process. A server therefore runs it
in a separate process, which is killed once it has used too much CPU time, however busy the machine is. The request is
passed on standard input, because a database URL may contain a password, which other users would see on the command
line.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parser  # type: ignore[import-not-found]
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ..core import typed_json
from ..render.sanitize import harmless
from ..search.query import Filters, parse
from ..search.snippet import Snippet
from . import Store, open_store
from .filters import SessionFilter
from .indexed_text import IndexedText, indexed_text, no_tool_name, rows_of
from .rows import NOTHING, moment
from .search import Found, Hit

if TYPE_CHECKING:
    from ..redact import Redactor

STARTED = b"\n"
"""Written before the result, as a sign that the search has started. JSON parsers skip it."""
OUT_OF_TIME = -getattr(signal, "SIGPROF", 0)
"""Exit status of a search that used up its CPU time in a single match; 0 if the system cannot limit it."""
_MOST_MATCHES = 2000
_CONTEXT = 80
"""The number of characters shown before and after a match."""


class RegexMatch(NamedTuple):
    """A match of a regular expression."""

    session: int
    text: IndexedText
    start: int
    end: int


def search_regex(
    store: Store,
    pattern: str,
    filters: Filters,
    limit: int = 1000,
    *,
    redactor: Redactor | None = None,
    check: Callable[[], None] = lambda: None,
) -> Iterator[RegexMatch]:
    """Every match in the sessions that pass the filters, the newest session first.

    With a redactor, texts and the values of filters are compared without their secrets, which could otherwise be
    guessed. `check` is called for every block and every message. It may raise an error to end the search.
    """
    compiled, literal = re.compile(pattern), literal_in(pattern)
    found = 0

    def may_match(data: bytes) -> bool:
        check()
        return literal in data

    for session in store.search.sessions_with(filters, redactor):
        for message in store.messages.scan(session, may_match):
            check()
            if redactor is not None:
                message = redactor.message(message)
            # Most texts do not match, so an `IndexedText` is only created for those that do.
            for row in rows_of(message, no_tool_name, NOTHING):
                for match in compiled.finditer(row[-1]):
                    yield RegexMatch(session, indexed_text(message, row), *match.span())
                    found += 1
                    if found >= limit:
                        return


class RegexRequest(msgspec.Struct):
    """A request to the program."""

    location: str
    """The path or URL of the store."""
    pattern: str
    filters: str
    """In the query language."""
    limit: int
    """The largest number of sessions to return."""
    hits: int
    """The largest number of hits to return for each session."""
    seconds: float
    """CPU time after which the program returns the matches found so far."""
    most_seconds: float
    """CPU time after which the program is killed, because a single text takes too long."""
    redact: bool = False
    """Search the texts without their secrets."""
    redact_personal: bool = False
    """The same without personal data."""


class RegexResult(msgspec.Struct):
    """The matches, by session."""

    found: list[Found]
    complete: bool
    """False if a limit was reached, so there may be more matches."""


class _OutOfTimeError(Exception):
    """The search has used up its CPU time."""


def run(store: Store, request: RegexRequest) -> RegexResult:
    """Search until a limit is reached."""
    until = time.process_time() + request.seconds
    filters = parse(request.filters).filters if request.filters else Filters()
    redactor = _redactor(request)
    by_session: dict[int, list[RegexMatch]] = {}
    complete = True

    def check() -> None:
        if time.process_time() > until:
            raise _OutOfTimeError

    try:
        matches = search_regex(store, request.pattern, filters, _MOST_MATCHES + 1, redactor=redactor, check=check)
        for number, match in enumerate(matches):
            is_full = match.session not in by_session and len(by_session) == request.limit
            if is_full or number == _MOST_MATCHES:
                complete = False
                break
            by_session.setdefault(match.session, []).append(match)
            check()
    except _OutOfTimeError:
        complete = False
    rows = {row.id: row for row in store.sessions.select(SessionFilter(ids=tuple(by_session)))}
    found = [
        Found(
            session=rows[id],
            score=1.0,
            more=max(0, len(matches) - request.hits),
            hits=[regex_hit(match) for match in matches[: request.hits]],
        )
        for id, matches in by_session.items()
        if id in rows
    ]
    return RegexResult(found=found, complete=complete)


def _redactor(request: RegexRequest) -> Redactor | None:
    if not (request.redact or request.redact_personal):
        return None
    # Imported late: most searches do not need it.
    from .redaction_key import make_redactor

    return make_redactor(personal=request.redact_personal)


def regex_hit(match: RegexMatch) -> Hit:
    """Convert a match to a search hit."""
    found, text = match.text, match.text.text
    before, after = line_around(text, match.start, match.end)
    # A match may be as long as the whole text.
    marked = text[match.start : min(match.end, match.start + 4 * _CONTEXT)]
    before, marked, after = (" ".join(harmless(piece).split("\n")) for piece in (before, marked, after))
    return Hit(
        message_index=found.message,
        field=found.field,
        author=found.author,
        timestamp=moment(found.at),
        snippet=Snippet(before + marked + after, [(len(before), len(before) + len(marked))]),
    )


def line_around(text: str, start: int, end: int) -> tuple[str, str]:
    """The text before and after a match on its line, shortened."""
    begin = max(text.rfind("\n", 0, start) + 1, start - _CONTEXT)
    stop = text.find("\n", end)
    return text[begin:start], text[end : min(stop if stop >= 0 else len(text), end + _CONTEXT)]


def literal_in(pattern: str) -> bytes:
    """The longest text that every match of a pattern contains, to skip blocks without it; empty if there is none.

    Only letters and digits, because JSON may escape everything else.
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


def main() -> None:
    """Read a request from standard input and write the result to standard output."""
    request = typed_json.decode(sys.stdin.buffer.read(), type=RegexRequest)
    store = open_store(request.location, read_only=True)
    # Time is measured from here: it takes a while to start a process.
    sys.stdout.buffer.write(STARTED)
    sys.stdout.buffer.flush()
    if OUT_OF_TIME:
        signal.setitimer(signal.ITIMER_PROF, request.most_seconds)
    try:
        sys.stdout.buffer.write(msgspec.json.encode(run(store, request)))
    finally:
        store.close()


if __name__ == "__main__":
    main()
