"""The page of a session, comparisons of branches, images and exports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from litestar.testing import TestClient

from unspool.core import model as m
from unspool.core.decisions import RecordedDecision
from unspool.runs.log import RunLog
from unspool.store import Store
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.decision_log import FILE_NAME
from unspool.testing import ClaudeLog, call
from unspool.testing.builders import START
from unspool.web.app import create_app
from unspool.web.run_review import has_review, run_review
from unspool.web.session_list import url_name
from unspool.web.settings import Settings
from unspool.web.templating import address
from unspool.web.transcript_pages import TranscriptPages

from ...forks import continued, family, forked
from ...store.contents import MACHINE, new_store, synced
from ...store.homes import claude_log
from ..conftest import PORT, TOKEN
from .helpers import Client, assert_valid_structure, page, queries, query_with, query_with_fork


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
    assert f"They fork after #{branch.parent_index}" in " ".join(parsed.words.split())


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
        at=START, agent="claude", session=log.session, request="r", call_ids=["a"], tool="Bash", verdict="allow",
        by="user", action=asked, input=msgspec.Raw(b'{"command":"rm -r build"}'),
    )  # fmt: skip
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


def test_a_review_is_offered_where_there_is_something_to_review(store: Store) -> None:
    """The page of a session knows without reading all of it what its review would list."""
    offered = {query.row.name: has_review(query) for query in queries(store) if query.row.kind == "main"}
    assert offered == {
        query.row.name: bool(run_review(query, []).approved or run_review(query, []).unapproved)
        for query in queries(store)
        if query.row.kind == "main"
    }
    assert set(offered.values()) == {True, False}
