"""Regular expressions search the current text of messages, not what was stored first."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool.search.query import Filters, parse
from unspool.store import Store, regex_search
from unspool.store.blocks import BLOCK
from unspool.store.regex_search import RegexMatch, RegexRequest, literal_in, run, search_regex
from unspool.testing import GeminiLog

from .contents import synced

FILLER = 200
"""More turns than messages can change in place, so that a later correction is stored beside them."""


@pytest.fixture
def rewritten(store: Store, tmp_path: Path) -> Store:
    """A store with a session whose second message was rewritten after many others."""
    log = GeminiLog()
    log.user("u", "What is the word?")
    log.model("g", "The word was kingfisher.")
    for number in range(FILLER):
        log.user(f"u{number}", f"question {number}")
        log.model(f"g{number}", f"reply {number}")
    log.model("g", "The word is cormorant.")
    log.write(tmp_path / "home")
    synced(store, tmp_path / "home")
    return store


def _found(store: Store, pattern: str, filters: str = "") -> list[tuple[int, str]]:
    chosen = parse(filters).filters if filters else Filters()
    return [
        (match.text.message, match.text.text[match.start : match.end]) for match in search_regex(store, pattern, chosen)
    ]


def test_rewritten_text_is_found_and_replaced_text_is_not(rewritten: Store) -> None:
    """Regular expressions and words give the same answer."""
    assert _found(rewritten, r"cormo\w+") == [(1, "cormorant")]
    assert _found(rewritten, "kingfisher") == []
    assert [found.hits[0].message_index for found in rewritten.search.run(parse("cormorant")).found] == [1]
    assert rewritten.search.run(parse("kingfisher")).found == []


def test_other_messages_of_the_session_are_found(rewritten: Store) -> None:
    """Blocks without a correction are skipped by their text, and read where it occurs."""
    assert _found(rewritten, r"reply 19\d\b") == [(401 - 2 * (199 - n), f"reply {n}") for n in range(190, 200)]
    assert _found(rewritten, r"(?i)THE WORD IS") == [(1, "The word is")]


def test_filters_and_limits(rewritten: Store) -> None:
    """Filters choose the sessions; a limit ends the search."""
    assert _found(rewritten, "cormorant", "agent:claude") == []
    assert _found(rewritten, "cormorant", "agent:gemini") == [(1, "cormorant")]
    assert len(list(search_regex(rewritten, "reply", Filters(), limit=7))) == 7


def _request(store: Store, seconds: float = 60.0) -> RegexRequest:
    return RegexRequest(store.location, r"reply \d+", "", limit=5, hits=2, seconds=seconds, most_seconds=60.0)


def test_time_in_which_other_programs_run_does_not_count(rewritten: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is CPU time: a search that was not given a processor has not used it."""

    def interrupted(*arguments: Any, **options: Any) -> Iterator[RegexMatch]:
        for match in search_regex(*arguments, **options):
            if match.text.message == 5:
                time.sleep(1.1)  # the injected fault: longer than the limit
            yield match

    monkeypatch.setattr(regex_search, "search_regex", interrupted)
    assert run(rewritten, _request(rewritten, seconds=1.0)).complete


def test_the_time_limit_does_not_wait_for_a_match(rewritten: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found until then is returned, even if nothing else matches in many texts."""
    ticks = itertools.count()
    monkeypatch.setattr(time, "process_time", lambda: float(next(ticks)))
    request = _request(rewritten, 50.0)
    request.pattern = r"question 0$|no such text"
    result = run(rewritten, request)
    assert [hit.message_index for found in result.found for hit in found.hits] == [2]
    assert not result.complete


def test_the_time_is_checked_in_blocks_that_are_skipped(rewritten: Store) -> None:
    """They take time as well, and a store may have very many of them."""
    checks: list[None] = []
    assert list(search_regex(rewritten, "reply199", Filters(), check=lambda: checks.append(None))) == []
    ((blocks,),) = rewritten.database.rows("SELECT count(*) FROM block")
    # The first block has the rewritten message, so all of its messages are searched.
    assert len(checks) >= blocks + BLOCK > BLOCK + 1


def test_the_program_groups_matches_by_session(rewritten: Store) -> None:
    """With as many hits of each as asked for, and the number of further ones."""
    result = run(rewritten, _request(rewritten))
    assert result.complete
    (found,) = result.found
    assert [hit.snippet.text for hit in found.hits] == ["reply 0", "reply 1"]
    assert found.more == FILLER - 2


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [("cormorant", b"cormorant"), (r"a\w+longest", b"longest"), ("(?i)any", b""), ("(", b""), ("one|two", b"")],
)
def test_the_longest_literal_of_a_pattern(pattern: str, literal: bytes) -> None:
    """Only text that every match contains may be used to skip blocks."""
    assert literal_in(pattern) == literal
