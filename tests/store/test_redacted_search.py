"""A search without secrets: what it finds depends on nothing but the redacted data."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from unspool.redact import PersonalData, Redactor
from unspool.search.query import parse
from unspool.store.filters import SessionFilter, containing, escaped, is_like, like_sql, starting_with
from unspool.store.regex_search import search_regex
from unspool.store.search import SearchOrder
from unspool.store.store import Store
from unspool.store.touched_files import TouchedFiles
from unspool.testing import ClaudeLog, call

from .contents import synced

SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
RIGHT, WRONG = SECRET[:9], "ghp_wrong"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
FILTERS = ("project", "tool", "model", "file")


@pytest.fixture
def leaky(store: Store, tmp_path: Path) -> Store:
    """One session with a secret in the values that filters compare, and one without."""
    for number, value in enumerate((SECRET, "harmless")):
        log = ClaudeLog(f"session {number}")
        folder = f"/home/dev/demo-{value}"
        log.user("Look for the lighthouse.", f"{number} prompt", cwd=folder)
        block = call(f"call {number}", f"mcp__{value}", file_path=f"{folder}/lamp.py", why="lighthouse")
        message = {"role": "assistant", "model": f"model-{value}", "content": [block], "usage": {}}
        log.line("assistant", f"{number} reply", message=message, cwd=folder)
        log.result(f"call {number}", "the lighthouse is lit", f"{number} result", cwd=folder)
        log.write(tmp_path / "home")
    synced(store, tmp_path / "home")
    return store


def facts(store: Store, query: str, redactor: Redactor | None, order: SearchOrder = "relevance") -> object:
    """What an answer shows, except for marks, which are the words of the query."""
    page = store.search.run(parse(query), 10, 1, order=order, now=NOW, redactor=redactor)
    found = [
        (each.session.name, each.score, each.more, [(hit.message_index, hit.snippet.text) for hit in each.hits])
        for each in page.found
    ]
    return found, page.more


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("name", FILTERS)
def test_filters_do_not_confirm_a_guess(leaky: Store, name: str, sign: str) -> None:
    star = "*" if name == "tool" else ""
    start = "mcp__" if name == "tool" else ""
    right, wrong = (f"lighthouse {sign}{name}:{start}{guess}{star}" for guess in (RIGHT, WRONG))
    assert facts(leaky, right, None) != facts(leaky, wrong, None)
    redactor = Redactor(b"key")
    assert facts(leaky, right, redactor) == facts(leaky, wrong, redactor)
    sought = [parse(query.removeprefix("lighthouse ")).filters for query in (right, wrong)]
    plain, redacted = (
        [len(list(search_regex(leaky, "lighthouse", filters, redactor=given))) for filters in sought]
        for given in (None, redactor)
    )
    # Most sessions have a text that does not have the excluded value.
    assert (plain[0] != plain[1]) == (not sign or name == "project")
    assert redacted[0] == redacted[1]


@pytest.mark.parametrize("query", ["project:dev/demo", "tool:mcp*", "model:MODEL", "file:lamp.py", "file:harmless"])
def test_filters_find_what_is_shown(leaky: Store, query: str) -> None:
    """A value with a secret is found by its other parts, and excluded by them."""
    plain = leaky.search.run(parse(query), redactor=None).found
    redacted = leaky.search.run(parse(query), redactor=Redactor(b"key")).found
    assert [each.session.name for each in plain] == [each.session.name for each in redacted]
    assert len(plain) == (1 if "harmless" in query else 2)
    excluded = f"lighthouse role:model -{query}"
    assert len(leaky.search.run(parse(excluded), redactor=Redactor(b"key")).found) == 2 - len(plain)


def test_filters_do_not_confirm_names_of_people(leaky: Store) -> None:
    redactor = Redactor(b"key", personal=PersonalData(["dev"]))
    for query in ("project:/home/dev", "file:/dev/", "project:dev"):
        assert leaky.search.run(parse(query)).found
        assert leaky.search.run(parse(query), redactor=redactor).found == []
    assert len(leaky.search.run(parse("project:/home/ file:demo"), redactor=redactor).found) == 2


def test_a_file_is_not_found_by_a_secret_in_its_path(leaky: Store) -> None:
    files, everything = TouchedFiles(leaky.database, leaky.sessions), SessionFilter()
    for path in (f"demo-{SECRET}/lamp.py", f"/home/dev/demo-{SECRET}/lamp.py"):
        assert len(files.touches(path, everything, 10)) == 1
        assert files.touches(path, everything, 10, redactor=Redactor(b"key")) == []
    assert len(files.touches("lamp.py", everything, 10, redactor=Redactor(b"key"))) == 2


@pytest.mark.parametrize("order", ["relevance", "time"])
def test_texts_of_one_message_are_counted_without_secrets(store: Store, tmp_path: Path, order: SearchOrder) -> None:
    """Of two calls in a message, only one matches besides the secret."""
    log = ClaudeLog()
    log.user("Hello")
    log.model(call("one", command="find lighthouse"), call("two", command=f"use {SECRET}"))
    log.write(tmp_path / "home")
    synced(store, tmp_path / "home")
    right, wrong = (f"lighthouse OR {guess}*" for guess in (RIGHT, WRONG))
    assert facts(store, right, None, order) != facts(store, wrong, None, order)
    redactor = Redactor(b"key")
    assert facts(store, right, redactor, order) == facts(store, wrong, redactor, order)


@pytest.mark.parametrize("order", ["relevance", "time"])
def test_many_secrets_hide_no_other_match(store: Store, tmp_path: Path, order: SearchOrder) -> None:
    """A session is found by its only match, which comes after more secrets than are read at once."""
    for number in range(2):
        log = ClaudeLog(f"session {number}")
        log.user("Look for the lighthouse.", f"{number} prompt")
        for reply in range(150 if number else 3):
            log.user(f"Use {SECRET}.", f"{number} {reply}")
        log.write(tmp_path / "home")
    synced(store, tmp_path / "home")
    redactor = Redactor(b"key")
    right, wrong = (facts(store, f"lighthouse OR {guess}*", redactor, order) for guess in (RIGHT, WRONG))
    assert right == wrong
    assert str(right).count("Look for the lighthouse.") == 2


def test_further_matches_are_counted(store: Store, tmp_path: Path) -> None:
    """Up to a limit: each of them has to be read."""
    log = ClaudeLog()
    for number in range(40):
        log.user(f"Look for the lighthouse{f' with {SECRET}' if number % 2 else ''}.")
    log.write(tmp_path / "home")
    synced(store, tmp_path / "home")
    for query, count in (("lighthouse", 30), ("lighthouse -with", 20)):
        (found,) = store.search.run(parse(query), hits=3, redactor=Redactor(b"key")).found
        assert len(found.hits) + found.more == count


@pytest.mark.parametrize("text", ["a%b", "100_x", "back\\slash", "ÜBER", "line\nbreak", "plain"])
def test_patterns_match_as_in_the_database(store: Store, text: str) -> None:
    values = [text, f"before {text.lower()} after", f"{text.upper()}!", "axb", "a\\%b", "100ax", "other"]
    for pattern in (containing(text), starting_with(text), escaped(text)):
        for value in values:
            ((found,),) = store.database.rows(
                f"SELECT {like_sql('text', pattern)} FROM (SELECT CAST(? AS text) AS text) AS one", pattern, value
            )
            assert bool(found) == is_like(value, pattern), (value, pattern)
