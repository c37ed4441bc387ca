"""What each tool answers, how answers continue, and what is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool.core.errors import AmbiguousError, NotFoundError, UnspoolError, UsageError
from unspool.mcp.scope import Caller
from unspool.store import Store
from unspool.testing import call

from .project import Asked, ProjectLog, own_words, quotations, store_of, typical_log

DEMO, OTHER = "/home/dev/demo", "/home/dev/other"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Three sessions of a project, one of another, one with long messages, and one with many rejections."""
    folder = tmp_path_factory.mktemp("tools")
    for name in ("first", "second", "asking"):
        typical_log(name, DEMO).write(folder / "home")
    typical_log("elsewhere", OTHER).write(folder / "home")
    long_log().write(folder / "home")
    refusing_log().write(folder / "home")
    made = store_of(folder / "store.db", folder / "home")
    yield made
    made.close()


def long_log() -> ProjectLog:
    """A session with an output of many pages."""
    log = ProjectLog("long", DEMO)
    log.user("Print numbers.")
    log.model(call("numbers", "Bash", command="seq 3000"))
    log.result("numbers", "\n".join(map(str, range(3000))))
    for turn in range(30):
        log.user(f"Question {turn}?")
        log.model(f"Answer {turn}: " + "because " * 40)
    return log


def refusing_log() -> ProjectLog:
    """A session in which a person likes nothing."""
    log = ProjectLog("refusing", DEMO)
    log.user("Look at some pages.")
    for number in range(5):
        log.model(call(f"fetch {number}", "WebFetch", url=f"https://example.org/{number}"))
        log.reject(f"fetch {number}", f"not page {number}")
    return log


LONG, REFUSING = long_log().session, refusing_log().session


@pytest.fixture
def ask(store: Store) -> Asked:
    """Asks as a session of the project."""
    return Asked(store, DEMO, Caller("claude", ProjectLog("asking", DEMO).session))


def names_in(text: str) -> set[str]:
    """The sessions that an answer names."""
    return set(re.findall(r"\bsession ([0-9a-f-]{36})", own_words(text)))


FIRST, SECOND = (ProjectLog(name, DEMO).session for name in ("first", "second"))
ASKING, ELSEWHERE = ProjectLog("asking", DEMO).session, ProjectLog("elsewhere", OTHER).session


# --- what each tool answers ---


def test_search(ask: Asked, store: Store) -> None:
    text = ask("search", query="lamp lit")
    assert names_in(text) == {FIRST, SECOND}
    assert "The lamp was never lit: the comment was part of the value. All tests pass now." in quotations(text)
    assert names_in(Asked(store, None)("search", query="lamp lit")) == {FIRST, SECOND, ASKING, ELSEWHERE}
    assert "No matches." in ask("search", query="elsewhere")


def test_search_does_not_find_what_was_asked_before(tmp_path: Path) -> None:
    """Otherwise every question would find the last one, with all that was quoted in its answer."""
    log = ProjectLog("echo", DEMO)
    log.user("What do you remember?")
    log.model(call("one", "mcp__unspool__search", query="lamp"))
    log.result("one", "The lamp was never lit")
    log.model(call("two", "Bash", command="grep lamp"))
    log.write(tmp_path / "home")
    store = store_of(tmp_path / "store.db", tmp_path / "home")
    try:
        ask = Asked(store, DEMO)
        assert quotations(ask("search", query="lamp")) == ['{"command":"grep lamp"}']
        assert "The lamp was never lit" in quotations(ask("search", query="lamp tool:mcp__unspool__search"))
    finally:
        store.close()


def test_read_session(ask: Asked) -> None:
    text = ask("read_session", session=FIRST)
    assert names_in(text) == {FIRST}
    assert "Why do the lighthouse tests fail in first?" in quotations(text)
    assert "git push --force" in quotations(text)
    assert "call of Bash" in own_words(text)
    assert "result, rejected" in own_words(text)
    assert "Go on without pushing." in quotations(ask("read_session", session=FIRST[:8], first=-2))


def test_what_was_refused(ask: Asked) -> None:
    text = ask("what_was_refused", tool="Bash")
    assert text.startswith("2 rejected actions in this project")
    assert names_in(text) == {FIRST, SECOND}
    assert quotations(text) == ["git push --force", "never force-push, open a pull request"] * 2
    assert "Bash was rejected by user" in own_words(text)
    assert "Nothing was rejected." in ask("what_was_refused", tool="Read")
    assert "Nothing was rejected." in ask("what_was_refused", since="1d")


def test_context_at(ask: Asked) -> None:
    text = ask("context_at", session=FIRST, message=3)
    assert "in context: 3 messages (0-2)" in text
    assert quotations(text)[0] == "def parse(line): ..."
    assert "for the next message" in ask("context_at", session=FIRST)
    long = ask("context_at", session=LONG, budget=20_000)
    assert len(quotations(long)) == long.count("\nmessage ") == 63
    assert any(text.startswith("Answer 29: because") and text.endswith("…") for text in quotations(long))


def test_history_of_file(ask: Asked) -> None:
    text = ask("history_of_file", path="src/parser.py")
    assert names_in(text) == {FIRST, SECOND}
    assert "-split()\n+split('#')[0]" in quotations(text)
    assert "Edit:" in own_words(text)
    assert "\nRead\n" in f"{own_words(text)}\n"
    assert names_in(ask("history_of_file", path=f"{DEMO}/src/parser.py")) == {FIRST, SECOND}
    assert "No session read or changed this file" in ask("history_of_file", path="arser.py")


def test_recent_work(ask: Asked) -> None:
    text = ask("recent_work")
    assert text.startswith("4 sessions in this project")
    assert names_in(text) == {FIRST, SECOND, LONG, REFUSING}
    assert "Go on without pushing." in quotations(text)
    assert "1 file, 1 rejected" in text
    assert "No sessions." in ask("recent_work", since="1d")


def test_latest_is_the_latest_of_the_project_that_does_not_ask(store: Store) -> None:
    asked = Asked(store, OTHER)("read_session", session="latest")
    assert names_in(asked) == {ELSEWHERE}
    with pytest.raises(NotFoundError, match="no sessions here yet"):
        Asked(store, OTHER, Caller("claude", ELSEWHERE))("read_session", session="latest")


# --- more ---


def test_pages_of_a_session_have_all_of_it_once(ask: Asked) -> None:
    """However small the pages are."""
    pages = list(ask.pages("read_session", session=LONG, budget=600, first=3))
    assert len(pages) > 10
    found = [text for page in pages for text in quotations(page)]
    for turn in range(30):
        assert sum(f"Question {turn}?" in text for text in found) == 1
    whole = re.sub(r"[\s…]", "", "".join(found))
    assert whole.count("because") == 30 * 40


def test_pages_of_a_message_have_all_of_it_once(ask: Asked) -> None:
    pages = list(ask.pages("read_session", session=LONG, budget=900, first=2, last=2))
    whole = "".join(text.removesuffix("…") for page in pages for text in quotations(page))
    assert whole == "\n".join(map(str, range(3000)))


def test_among_others_a_long_message_is_cut(ask: Asked) -> None:
    text = ask("read_session", session=LONG, first=1, last=3, budget=5000)
    assert "more characters; for all of it: first=2, last=2)" in text
    assert "Question 0?" in quotations(text)


@pytest.mark.parametrize(("first", "last", "shown"), [(3, 3, 1), (3, 6, 4), (-4, None, 4), (-4, -2, 3), (60, 10**9, 3)])
def test_never_more_than_was_asked_for(ask: Asked, first: int, last: int | None, shown: int) -> None:
    text = ask("read_session", session=LONG, first=first, last=last, budget=20_000)
    assert len(re.findall(r"^message \d+, (?:human|model)", own_words(text), re.MULTILINE)) == shown


@pytest.mark.parametrize(
    ("tool", "arguments", "items"),
    [
        ("search", {"query": "tests OR numbers"}, 3),
        ("what_was_refused", {}, 7),
        ("recent_work", {}, 4),
        ("history_of_file", {"path": "src/parser.py"}, 4),
        ("context_at", {"session": LONG}, 63),
    ],
)
def test_small_pages_of_a_list_have_what_a_large_one_has(ask: Asked, tool: str, arguments: Any, items: int) -> None:
    def lines(page: str) -> list[str]:
        return re.findall(r"^(?:\d{4}-.*|session .*\)|message \d+).*?[,:;]", own_words(page), re.MULTILINE)

    pages = list(ask.pages(tool, budget=500, **arguments))
    assert len(pages) > 1
    small = [line for page in pages for line in lines(page)]
    large = [line for page in ask.pages(tool, budget=20_000, **arguments) for line in lines(page)]
    assert set(small) == set(large)
    assert len(large) >= items


# --- errors ---


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("search", {"query": "x", "budget": 0}, "budget is 0; it must be between"),
        ("read_session", {"session": "latest", "budget": 10**9}, "budget is 1,000,000,000"),
        ("search", {"query": ""}, "empty"),
        ("search", {"query": "(red"}, "character"),
        ("search", {"query": "is:nonsense"}, "nonsense"),
        ("search", {"query": "x" * 3000}, r"length <= 2000"),
        ("search", {}, "missing required field `query`"),
        ("search", {"query": "x", "limit": 3}, "unknown field `limit`"),
        ("search", {"query": ["x"]}, "Expected `str`"),
        ("search", {"query": "x", "cursor": "one"}, "cursor is not from an answer"),
        ("recent_work", {"cursor": "9" * 30}, "cursor is not from an answer"),
        ("recent_work", {"since": "soon"}, "is not a time"),
        ("read_session", {"session": "no-such-session"}, "no such session here"),
        ("read_session", {"session": ELSEWHERE}, "no such session here"),
        ("read_session", {"session": ASKING}, "no such session here"),
        ("read_session", {"session": FIRST, "first": 10**6}, "has messages 0 to 8; first is 1000000"),
        ("read_session", {"session": FIRST, "first": 5, "last": 2}, "which is before first"),
        ("read_session", {"session": FIRST, "cursor": "3.0"}, "cursor is not from an answer"),
        ("read_session", {"session": FIRST, "cursor": "99.0.0"}, "cursor is not from an answer"),
        ("read_session", {"session": FIRST, "branch": 7}, "has no branch 7"),
        ("context_at", {"session": FIRST, "message": 10**6}, "has messages 0 to 8"),
        ("context_at", {"session": FIRST, "message": -2}, "has messages 0 to 8"),
        ("history_of_file", {"path": " / "}, "path is empty"),
        ("what_was_refused", {"budget": "many"}, "Expected `int`"),
        ("forget", {}, "there is no such tool; the tools are search"),
    ],
)
def test_errors_say_what_is_wrong(ask: Asked, tool: str, arguments: Any, message: str) -> None:
    with pytest.raises(UnspoolError, match=message):
        ask(tool, **arguments)


def test_a_name_that_means_several_sessions(tmp_path: Path) -> None:
    """Of seventeen ids, two begin with the same digit."""
    logs = [typical_log(f"session {number}", DEMO) for number in range(17)]
    for log in logs:
        log.write(tmp_path / "home")
    digits = [log.session[0] for log in logs]
    store = store_of(tmp_path / "store.db", tmp_path / "home")
    try:
        with pytest.raises(AmbiguousError, match=r"matches \d sessions"):
            Asked(store, DEMO)("read_session", session=max(digits, key=digits.count))
    finally:
        store.close()


def test_a_number_as_text_is_a_number(ask: Asked) -> None:
    """Some models write numbers as strings."""
    assert ask("read_session", session=FIRST, first="1", last="1")


def test_usage_errors_are_usage_errors(ask: Asked) -> None:
    with pytest.raises(UsageError):
        ask("search", query="x", budget=1)
