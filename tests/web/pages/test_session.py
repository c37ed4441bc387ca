"""The page of a session, comparisons of branches, images and exports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from litestar.testing import TestClient

from unspool.core import model as m
from unspool.core.decisions import RecordedDecision
from unspool.formats import FORMATS
from unspool.store import Store
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.decision_log import FILE_NAME
from unspool.store.run_log import RunLog
from unspool.store.session_usage import turn_usage
from unspool.store.usage_rows import UsageTable
from unspool.testing import ClaudeLog, call
from unspool.testing.builders import START
from unspool.usage.prices import shipped_prices
from unspool.web import timeline, usage_view
from unspool.web.app import create_app
from unspool.web.pages.session import Choices, Position, session_page
from unspool.web.pages.session_fragments import timeline_view
from unspool.web.run_review import has_review, run_review
from unspool.web.session_list import url_name
from unspool.web.settings import Settings
from unspool.web.templating import address
from unspool.web.transcript_pages import TranscriptPages

from ...forks import continued, family, forked
from ...formats.checks import check_anthropic, check_log_file
from ...store.contents import MACHINE, new_store, synced
from ...store.homes import claude_log
from ..conftest import PORT, TOKEN
from .helpers import Client, assert_valid_structure, page, queries, query_with, query_with_fork


@pytest.mark.slow
def test_session_pages_have_valid_structure(client: Client, store: Store) -> None:
    """With what the script needs to continue from there."""
    for query in list(queries(store))[::5]:
        parsed = page(client, address(url_name(query.row)))
        assert_valid_structure(parsed)
        main = next(attributes for tag, attributes in parsed.tags if tag == "main")
        assert main["data-session"] == str(query.row.id)
        assert main["data-count"] == str(len(query.path()))
        assert main["data-pages"] == str(query.pages())
        keys = parsed.all("data-key")
        assert len(keys) == len(set(keys)) or query.row.name in keys


def test_a_link_to_a_message_opens_its_page_and_its_branch(client: Client, store: Store) -> None:
    """Also on a line that was left."""
    query = query_with(store, "branch")
    branch = query.head.branches[0]
    parsed = page(client, f"{address(url_name(query.row))}?at={branch.root_index}")
    main = next(attributes for tag, attributes in parsed.tags if tag == "main")
    assert main["data-branch"] == str(branch.id)
    assert f"You are reading branch {branch.id}" in parsed.words


def test_compare_page(client: Client, store: Store) -> None:
    """From the message after which they part."""
    query, branch = query_with_fork(store)
    parsed = page(client, f"{address(url_name(query.row))}/compare?a=0&b={branch.id}")
    assert_valid_structure(parsed)
    words = " ".join(parsed.words.split())
    assert f"Active branch and branch {branch.id}" in words
    assert f"They fork after #{branch.parent_index}" in words


def test_images_are_served_as_images_only(client: Client, store: Store) -> None:
    """Their own bytes and type, in a box."""
    found = [
        (query, entry)
        for query in queries(store)
        for entry in TranscriptPages(query).page(0).entries
        if entry.kind == "image" and entry.picture is not None
    ]
    query, entry = found[0]
    assert entry.picture is not None
    answer = client.get(f"{address(url_name(query.row))}/images/{entry.picture[0]}/{entry.picture[1]}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] in ("image/png", "image/jpeg", "image/gif", "image/webp")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert client.get(f"{address(url_name(query.row))}/images/{entry.picture[0]}/99").status_code == 404


@pytest.mark.parametrize("format", ["md", "html", "ndjson"])
def test_exports_are_downloads(client: Client, store: Store, format: str) -> None:
    """To be saved, not shown."""
    row = store.sessions.select()[0]
    answer = client.get(f"{address(url_name(row))}/export/{format}")
    assert answer.status_code == 200
    assert re.fullmatch(rf'attachment; filename="[\w.-]+\.{format}"', answer.headers["content-disposition"])
    assert len(answer.content) > 100


@pytest.mark.slow
def test_exports_in_formats_of_other_programs(client: Client, store: Store) -> None:
    """All of them are in the menu, and the same as on the command line."""
    row = next(
        row for row in store.sessions.select() if store.messages.load_session(row.id).context_now().message_indices
    )
    page = client.get(address(url_name(row))).text
    for format in FORMATS:
        link = f"{address(url_name(row))}/export/{format.name}"
        assert f'href="{link}"' in page
        answer = client.get(link)
        assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, format.media_type)
        assert answer.headers["content-disposition"].endswith(f'{format.suffix}"')
    assert check_log_file(client.get(f"{address(url_name(row))}/export/inspect").content)[0]["messages"]
    check_anthropic(client.get(f"{address(url_name(row))}/export/anthropic").json())


def test_a_session_without_a_context_is_no_request(client: Client, store: Store) -> None:
    found = (
        row for row in store.sessions.select() if not store.messages.load_session(row.id).context_now().message_indices
    )
    answer = client.get(f"{address(url_name(next(found)))}/export/openai")
    assert answer.status_code == 404
    assert "nothing in its context now" in answer.text


@contextmanager
def serving(home: Path, store: Path) -> Iterator[Client]:
    """The pages of the sessions in a home."""
    with closing(new_store(store)) as opened:
        synced(opened, home)
    app = create_app(Settings(token=TOKEN, store=str(store), port=PORT, follows=False))
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        client.headers.update({"authorization": f"Bearer {TOKEN}"})
        yield client


def test_requests_that_contradict_the_context_are_linked(tmp_path: Path) -> None:
    """They are no damage, and the page says so."""
    log = ClaudeLog()
    for number in range(20):
        log.user(f"Question {number} " + "x" * 9_000)
        log.model("Yes.", tokens=20_000 + 3_000 * (number % 10))
    log.write(tmp_path)
    with serving(tmp_path, tmp_path / "store.db") as client:
        parsed = page(client, "/sessions/latest")
    words = " ".join(parsed.words.split())
    assert "The size of 1 request contradicts the context that is shown for it: #21" in words
    assert "could not be read" not in words
    assert any(str(link).endswith("?at=21#m21") for link in parsed.all("href"))


def test_a_call_with_a_changed_input_shows_what_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what the model asked for, on the page and in the output that is loaded later."""
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path))
    log = ClaudeLog()
    log.user("Clean up")
    log.model(call("a", command="rm -r ."), reply="one")
    log.result("a", "done")
    log.write(tmp_path / "home")
    asked = m.Action(msgspec.Raw(b'{"command":"rm -r ."}'), command="rm -r .")
    decision = RecordedDecision(
        at=START,
        agent="claude",
        session=log.session,
        request="r",
        call_ids=["a"],
        tool="Bash",
        verdict="allow",
        by="user",
        action=asked,
        input=msgspec.Raw(b'{"command":"rm -r build"}'),
    )
    with closing(RunLog(tmp_path / FILE_NAME)) as decisions:
        decisions.record_decision("run", decision, {})
    with serving(tmp_path / "home", tmp_path / "store.db") as client:
        words = " ".join(page(client, "/sessions/latest").words.split())
        assert "Asked for: rm -r ." in words
        assert "rm -r build" in words
        assert "rm -r build" in page(client, "/sessions/latest/outputs/1/0").words


def test_the_sessions_before_and_after_are_linked(tmp_path: Path) -> None:
    """Each with how it follows; a session that is not in the store has no link."""
    first, second, third, beside = family()
    orphan = forked(continued(ClaudeLog("deleted"), "deleted"), "orphan", keep_ids=True)
    for log in (first, second, third, beside, orphan):
        log.write(tmp_path)
    with serving(tmp_path, tmp_path / "store.db") as client:
        parsed = page(client, f"/sessions/{second.session}")
        assert_valid_structure(parsed)
        words = " ".join(parsed.words.split())
        assert "Started by fork of prompt first Continued in prompt first by fork" in words
        assert {f"/sessions/{first.session}", f"/sessions/{third.session}"} <= set(parsed.all("href"))
        words = " ".join(page(client, f"/sessions/{first.session}").words.split())
        assert "Continued in prompt first by fork prompt first by fork" in words
        words = " ".join(page(client, f"/sessions/{orphan.session}").words.split())
        assert f"Started by fork of {ClaudeLog('deleted').session[:8]} (missing)" in words


def test_a_session_that_was_continued_often(tmp_path: Path) -> None:
    """Some sessions are listed, the others are counted."""
    first = continued(ClaudeLog("first"), "first")
    for number in range(8):
        forked(first, f"fork {number}", keep_ids=True).write(tmp_path)
    first.write(tmp_path)
    with serving(tmp_path, tmp_path / "store.db") as client:
        words = " ".join(page(client, f"/sessions/{first.session}").words.split())
    assert words.count("prompt first by fork") == 5
    assert "and 3 more" in words


@pytest.mark.parametrize(
    ("damage", "status", "text"),
    [
        ("UPDATE block SET data = zeroblob(40) WHERE first = 0", 200, "Message 3 is damaged in the store"),
        ("UPDATE session SET facts = zeroblob(40)", 200, "corrections to its messages are damaged in the store"),
        ("UPDATE session SET head = zeroblob(40)", 503, "its summary is damaged in the store"),
    ],
)
def test_damage_in_the_store_is_named(tmp_path: Path, damage: str, status: int, text: str) -> None:
    """The page of the session says what is damaged and what to do; all other pages work."""
    claude_log(30).write(tmp_path)
    with serving(tmp_path, tmp_path / "store.db") as client:
        with closing(Store(SqliteDatabase(tmp_path / "store.db", machine=MACHINE))) as store:
            store.database.rows(damage)
            (row,) = store.sessions.select()
        answer = client.get(address(url_name(row)))
        assert answer.status_code == status
        assert text in answer.text
        for path in ("/", "/search?q=number", "/stats"):
            assert client.get(path).status_code == 200, path


def test_a_page_that_is_opened_again_does_not_read_all_turns(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a session with a million messages, that takes much longer than the rest of the page."""
    key = url_name(max(queries(store), key=lambda query: len(query.turn_starts())).row)
    opened = session_page(store, key, Position(branch=None, at=None, page=None), Choices(), None)

    def fail(*_: object) -> None:
        raise AssertionError("all calls or prompts of the session are read")

    monkeypatch.setattr(UsageTable, "prompts", fail)
    monkeypatch.setattr(UsageTable, "first_results", fail)
    assert session_page(store, key, Position(branch=None, at=None, page=None), Choices(), None) == opened


def test_the_timeline_counts_all_turns(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that share a line of the outline with others, and not the messages before the first one."""
    monkeypatch.setattr(timeline, "_MOST_TURNS", 2)
    timeline._outlines.clear()
    for query in queries(store):
        for branch in (0, *(branch.id for branch in query.head.branches)):
            assert timeline_view(query, branch).turns == len(query.turn_starts(branch))
    timeline._outlines.clear()


def test_the_usage_page_lists_the_most_expensive_turns(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says how many others there are: a page with all turns of a very long session would be too large."""
    query = max(queries(store), key=lambda query: len(query.turn_starts()))
    turns = turn_usage(store.database, shipped_prices(), query.row.id)
    monkeypatch.setattr(usage_view, "MOST_TURNS", 2)
    shown, others = usage_view.costliest_turns(query)
    assert shown == [turn for turn in turns if turn in shown]
    costs = sorted((turn.cost.usd, turn.tokens.total) for turn in turns)
    assert sorted((turn.cost.usd, turn.tokens.total) for turn in shown) == costs[-2:]
    assert others == len(turns) - 2
    parsed = page(client, f"{address(url_name(query.row))}/usage")
    assert f"To list the other {others}, run unspool usage" in " ".join(parsed.words.split())


def test_open_calls_belong_to_the_last_turn(store: Store) -> None:
    """Its prompt is found from the end, without reading the others."""
    for query in queries(store):
        assert store.usage.last_prompt(query.row.id) == max(query.prompts, default=None)


def test_a_review_is_offered_where_there_is_something_to_review(store: Store) -> None:
    """The page of a session knows without reading all of it what its review would list."""
    offered = {query.row.name: has_review(query) for query in queries(store) if query.row.kind == "main"}
    assert offered == {
        query.row.name: bool(run_review(query, []).approved or run_review(query, []).unapproved)
        for query in queries(store)
        if query.row.kind == "main"
    }
    assert set(offered.values()) == {True, False}


def test_two_sessions_side_by_side(client: Client, store: Store) -> None:
    """The same page of both, with links to each."""
    one, other = list(queries(store))[:2]
    names = [url_name(query.row) for query in (one, other)]
    parsed = page(client, f"/compare?a={quote(names[0], safe='')}&b={quote(names[1], safe='')}")
    assert_valid_structure(parsed)
    assert {address(name) for name in names} <= set(parsed.all("href"))
    assert client.get(f"/compare?a={quote(names[0], safe='')}&b=nothing-like-this").status_code == 404


def test_annotations_are_added_shown_exported_and_removed(tmp_path: Path) -> None:
    """Through the API and on the page."""
    log = ClaudeLog()
    log.user("Please look")
    log.model("Looked.")
    log.write(tmp_path / "home")
    with serving(tmp_path / "home", tmp_path / "sessions.db") as client:
        url = f"/api/annotations/{log.session}"
        assert client.post(url, json={"kind": "tag", "text": "later <b>"}).status_code == 201
        assert client.post(url, json={"kind": "pin", "message_index": 1}).status_code == 201
        answer = client.post(url, json={"kind": "note", "text": "see here", "message_index": 0})
        assert [one["kind"] for one in answer.json()["annotations"]] == ["tag", "note", "pin"]
        assert client.post(url, json={"kind": "note", "text": "x", "message_index": 99}).status_code == 404
        assert client.post(url, json={"kind": "note", "text": " "}).status_code == 400
        shown = page(client, f"/sessions/{log.session}")
        assert_valid_structure(shown)
        assert "later <b>" in shown.words
        assert shown.all("data-pinned") == ["1"]
        for format in ("md", "html"):
            text = client.get(f"/sessions/{log.session}/export/{format}").text
            assert "see here" in text
            assert "later <b>" not in text
        record = client.get(f"/sessions/{log.session}/export/ndjson").json()
        assert [one["kind"] for one in record["annotations"]] == ["tag", "note", "pin"]
        for one in answer.json()["annotations"]:
            client.post(f"{url}/remove", json={"id": one["id"]})
        assert client.get(url).json()["annotations"] == []
        assert "annotations" not in client.get(f"/sessions/{log.session}/export/ndjson").json()


def test_questions_show_their_answers(tmp_path: Path) -> None:
    """What was chosen is marked, another answer is shown, and asking to clarify is no rejection."""
    question = {"question": "Which port?", "header": "Port", "options": [{"label": "80"}, {"label": "8080"}]}
    asked = {"questions": [question]}
    log = ClaudeLog()
    log.user("Ask me")
    for id in ("chosen", "typed", "clarified"):
        log.model(call(id, "AskUserQuestion", **asked))
        if id == "clarified":
            log.result(id, CLARIFY, error=True)
        else:
            answer = "8080" if id == "chosen" else "any free one"
            said = f'"Which port?"="{answer}". You can now continue with the user\'s answers in mind.'
            log.result(id, f"User has answered your questions: {said}")
    log.write(tmp_path / "home")
    with serving(tmp_path / "home", tmp_path / "sessions.db") as client:
        html = client.get(f"/sessions/{log.session}").text
    assert html.count('class="chosen"') == 1
    assert "any free one" in html
    assert "You asked to clarify" in html
    assert "Rejected by" not in html


CLARIFY = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). To tell you how to proceed, the user said:\n"
    "The user wants to clarify these questions."
)
