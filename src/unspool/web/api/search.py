"""The search for words, or with a regular expression."""

from __future__ import annotations

import re
import select
import subprocess
import sys
from contextlib import suppress

import msgspec

from ...core import typed_json
from ...core.errors import UnspoolError
from ...search.query import parse
from ...store import Store
from ...store.regex_search import OUT_OF_TIME, RegexRequest
from ..errors import InvalidRequestError
from .schemas import SearchAnswer, SearchParams

SECONDS = 10.0
"""CPU time for a search. Elapsed time would depend more on other programs than on the pattern."""
_MORE_SECONDS = 2.0
"""Additional CPU time for the search process to report what it has found so far."""
_WAIT_SECONDS = 60.0
"""Time for it to start, and then to finish, on a busy machine."""


class _TooSlowError(InvalidRequestError):
    """A pattern took too long."""

    def __init__(self) -> None:
        super().__init__(
            f"The search of a single text for the pattern took longer than {SECONDS:.0f} s.",
            "Limit nested repetitions, such as {0,80}; `unspool search --regex` has no time limit.",
        )


def search(store: Store, params: SearchParams) -> SearchAnswer:
    """Search the messages, tool calls and tool output of all sessions."""
    if params.regex:
        answer = search_regex(
            store,
            params.regex,
            params.q,
            params.offset + params.limit,
            params.hits,
            redact=params.redact,
            redact_personal=params.redact_personal,
        )
        answer.found = answer.found[params.offset :]
        return answer
    if not params.q.strip():
        raise InvalidRequestError("The query is empty.", "Pass words as q, or a pattern as regex.")
    redactor = params.redactor()
    found, more = store.search.run(
        parse(params.q), params.limit, params.hits, offset=params.offset, order=params.sort, redactor=redactor
    )
    return SearchAnswer(found=found, complete=not more)


def search_regex(
    store: Store,
    pattern: str,
    filters: str,
    limit: int,
    hits: int,
    *,
    redact: bool = False,
    redact_personal: bool = False,
) -> SearchAnswer:
    """Search with a regular expression, in a separate process: a bad pattern can take forever."""
    _check(pattern)
    if filters:
        parse(filters)
    most = SECONDS + _MORE_SECONDS
    request = msgspec.json.encode(
        RegexRequest(store.location, pattern, filters, limit, hits, SECONDS, most, redact, redact_personal)
    )
    command, pipe = [sys.executable, "-m", "unspool.store.regex_search"], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            _start(process, request)
            output, errors = process.communicate(timeout=max(_WAIT_SECONDS, most) if OUT_OF_TIME else most)
        except subprocess.TimeoutExpired:
            raise _TooSlowError from None
        finally:
            process.kill()
    if process.returncode and process.returncode == OUT_OF_TIME:
        raise _TooSlowError
    if process.returncode:
        reason = errors.decode(errors="replace")[-500:]
        raise UnspoolError(f"The search process failed with status {process.returncode}: {reason}")
    return typed_json.decode(output, type=SearchAnswer)


def _start(process: subprocess.Popen[bytes], request: bytes) -> None:
    """Send the request, and wait until the search has started or failed."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(request)
    process.stdin = None
    if not select.select([process.stdout], [], [], _WAIT_SECONDS)[0]:
        raise UnspoolError(f"The search did not start within {_WAIT_SECONDS:.0f} s")


def _check(pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidRequestError(
            f"{pattern!r} is not a valid regular expression: {error}.", "Escape ( ) [ ] * + ? with \\."
        ) from None
