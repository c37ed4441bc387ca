"""Searching for words, or for exact code with a regular expression."""

from __future__ import annotations

import re
import subprocess
import sys

import msgspec

from ...errors import UnspoolError
from ...search.query import parse
from ...store import Store
from ...store.exact import ExactAsked
from .errors import RefusedError
from .shapes import SearchAnswer, SearchAsked

SECONDS = 10.0
_MORE_SECONDS = 2.0
"""For a program to begin, and to tell what it has found so far."""


def search(store: Store, asked: SearchAsked) -> SearchAnswer:
    """What was said, done or printed, in all sessions."""
    if asked.regex:
        return search_exactly(store, asked.regex, asked.q, asked.limit, asked.hits)
    if not asked.q.strip():
        raise RefusedError("There is nothing to look for.", "Give words in q, or a pattern in regex.")
    return SearchAnswer(found=store.search(parse(asked.q), asked.limit, asked.hits))


def search_exactly(store: Store, pattern: str, filters: str, limit: int, hits: int) -> SearchAnswer:
    """The places that a regular expression finds, by session; looked for where it holds up nobody."""
    _check(pattern)
    if filters:
        parse(filters)
    asked = msgspec.json.encode(ExactAsked(store.place, pattern, filters, limit, hits, SECONDS))
    command = [sys.executable, "-m", "unspool.store.exact"]
    try:
        told = subprocess.run(command, input=asked, capture_output=True, timeout=SECONDS + _MORE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise RefusedError(
            f"The pattern was still being tried on one and the same text after {SECONDS:.0f} s.",
            "Give repetitions inside of others an end, such as {0,80}; `unspool search --regex` takes any time.",
        ) from None
    if told.returncode:
        raise UnspoolError(f"the search ended with {told.returncode}: {told.stderr.decode(errors='replace')[-500:]}")
    return msgspec.json.decode(told.stdout, type=SearchAnswer)


def _check(pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise RefusedError(f"{pattern!r} is no regular expression: {error}.", "Escape ( ) [ ] * + ? with \\.") from None
