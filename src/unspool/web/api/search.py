"""Searching for words, or for exact code with a regular expression."""

from __future__ import annotations

import re
import select
import subprocess
import sys
from contextlib import suppress

import msgspec

from ...core.errors import UnspoolError
from ...search.query import parse
from ...store import Store
from ...store.regex_search import RegexRequest
from .errors import RefusedError
from .schemas import SearchAnswer, SearchAsked

SECONDS = 10.0
_MORE_SECONDS = 2.0
"""For a program to tell what it has found so far."""
_BEGIN_SECONDS = 60.0
"""For it to begin. On a machine that has much else to do this takes a while, which is no fault of the pattern."""


def search(store: Store, asked: SearchAsked) -> SearchAnswer:
    """What was said, done or printed, in all sessions."""
    if asked.regex:
        return search_regex(store, asked.regex, asked.q, asked.limit, asked.hits)
    if not asked.q.strip():
        raise RefusedError("There is nothing to look for.", "Give words in q, or a pattern in regex.")
    return SearchAnswer(found=store.search.run(parse(asked.q), asked.limit, asked.hits))


def search_regex(store: Store, pattern: str, filters: str, limit: int, hits: int) -> SearchAnswer:
    """The places that a regular expression finds, by session; looked for where it holds up nobody."""
    _check(pattern)
    if filters:
        parse(filters)
    asked = msgspec.json.encode(RegexRequest(store.location, pattern, filters, limit, hits, SECONDS))
    command, pipe = [sys.executable, "-m", "unspool.store.regex_search"], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            _begin(process, asked)
            told, complaints = process.communicate(timeout=SECONDS + _MORE_SECONDS)
        except subprocess.TimeoutExpired:
            raise RefusedError(
                f"The pattern was still being tried on one and the same text after {SECONDS:.0f} s.",
                "Give repetitions inside of others an end, such as {0,80}; `unspool search --regex` takes any time.",
            ) from None
        finally:
            process.kill()
    if process.returncode:
        raise UnspoolError(f"the search ended with {process.returncode}: {complaints.decode(errors='replace')[-500:]}")
    return msgspec.json.decode(told, type=SearchAnswer)


def _begin(process: subprocess.Popen[bytes], asked: bytes) -> None:
    """Ask, and wait until it is looking, or has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(asked)
    process.stdin = None
    if not select.select([process.stdout], [], [], _BEGIN_SECONDS)[0]:
        raise UnspoolError(f"the search did not begin within {_BEGIN_SECONDS:.0f} s")


def _check(pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise RefusedError(f"{pattern!r} is no regular expression: {error}.", "Escape ( ) [ ] * + ? with \\.") from None
