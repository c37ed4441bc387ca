"""Answers without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from litestar.testing import TestClient

from unspool.ingest.sync import Syncer
from unspool.search.query import parse
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.redaction_key import make_redactor
from unspool.store.search import SearchOrder, SearchPage
from unspool.store.store import Store
from unspool.testing import ClaudeLog
from unspool.web.app import create_app
from unspool.web.settings import Settings

from ..conftest import PORT, TOKEN

SECRET = "ghp_" + "a1B2c3D4e5" * 4
WORDS = "lighthouse " * 12
NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:  # type: ignore[type-arg]
    """A server with one session, whose secret is where a snippet ends."""
    log = ClaudeLog("leaky")
    log.user(f"{WORDS} {SECRET} {WORDS}")
    log.model("done")
    log.write(tmp_path / "home")
    store = Store(SqliteDatabase(tmp_path / "sessions.db", machine=("tests", "tests")))
    Syncer(store, tmp_path / "home").run()
    store.close()
    settings = Settings(token=TOKEN, store=str(tmp_path / "sessions.db"), port=PORT, follows=False)
    with TestClient(create_app(settings), base_url=f"http://127.0.0.1:{PORT}") as client:
        client.headers.update({"authorization": f"Bearer {TOKEN}"})
        yield client


def key(client: TestClient) -> str:  # type: ignore[type-arg]
    name: str = client.get("/api/sessions").json()["sessions"][0]["row"]["name"]
    return name


def test_a_redacted_answer_is_another_one(client: TestClient) -> None:  # type: ignore[type-arg]
    """It has an ETag of its own, so that no cache mixes them up."""
    address = f"/api/sessions/{key(client)}/messages"
    plain, redacted = client.get(address), client.get(address, params={"redact": "true"})
    assert SECRET in plain.text
    assert SECRET not in redacted.text
    assert "‹github-token:" in redacted.text
    assert plain.headers["etag"] != redacted.headers["etag"]
    again = client.get(address, params={"redact": "1"}, headers={"if-none-match": redacted.headers["etag"]})
    assert again.status_code == 304
    assert client.get(address, params={"redact": "maybe"}).status_code == 400


def test_snippets_have_no_part_of_a_secret(client: TestClient) -> None:  # type: ignore[type-arg]
    found = client.get("/api/search", params={"q": "lighthouse", "redact": "1"})
    assert found.status_code == 200
    assert "lighthouse" in found.text
    assert not any(SECRET[start : start + 8] in found.text for start in range(len(SECRET) - 8))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"q": SECRET}, 0),
        ({"q": SECRET[:6] + "*"}, 0),
        ({"q": f"lighthouse OR {SECRET}"}, 1),
        ({"regex": SECRET[:6]}, 0),
        ({"regex": rf"(lighthouse )+ {SECRET[:6]}"}, 0),
        ({"regex": "(lighthouse )+"}, 1),
    ],
)
def test_secrets_cannot_be_guessed(client: TestClient, query: dict[str, str], count: int) -> None:  # type: ignore[type-arg]
    """What matches nothing but a secret is not found."""
    assert len(client.get("/api/search", params=query).json()["found"]) == 1
    redacted = client.get("/api/search", params={**query, "redact": "1"})
    found = redacted.json()["found"]
    assert len(found) == count
    assert all(hit["snippet"]["marks"] for session in found for hit in session["hits"])
    assert SECRET[:6] not in redacted.text


def test_hits_after_those_of_a_secret(tmp_path: Path) -> None:
    """A session is found although its best matches are nothing but a secret."""
    log = ClaudeLog("leaky")
    log.user("Look for the lighthouse.")
    for _ in range(5):
        log.user(f"Use {SECRET}.")
    log.write(tmp_path / "home")
    store = Store(SqliteDatabase(tmp_path / "sessions.db", machine=("tests", "tests")))
    Syncer(store, tmp_path / "home").run()
    query = parse(f"lighthouse OR {SECRET}")
    ((plain,), _) = store.search.run(query, hits=2)
    assert all("Use" in hit.snippet.text for hit in plain.hits)
    assert plain.more == 4
    ((redacted,), _) = store.search.run(query, hits=2, redactor=make_redactor(personal=False))
    assert [hit.snippet.text for hit in redacted.hits] == ["Look for the lighthouse."]
    assert redacted.more == 0
    store.close()


def test_secrets_cannot_be_ruled_out(client: TestClient) -> None:  # type: ignore[type-arg]
    """Nor does it show which secret a text does not have."""
    for guess in (SECRET[:6], "ghp_wrong"):
        query = {"regex": f"lighthouse  (?!{guess})", "redact": "1"}
        assert len(client.get("/api/search", params=query).json()["found"]) == 1


@pytest.fixture
def leaky(tmp_path: Path) -> Iterator[Store]:
    """Four sessions with the same word, two of them with a secret in other messages as well."""
    for number in range(4):
        log = ClaudeLog(f"session {number}")
        log.user("Look for the lighthouse.")
        for _ in range(5 if number < 2 else 0):
            log.user(f"Use {SECRET}.")
        log.user(f"The lighthouse and {SECRET}." if number == 3 else "The lighthouse.")
        log.write(tmp_path / "home")
    store = Store(SqliteDatabase(tmp_path / "sessions.db", machine=("tests", "tests")))
    Syncer(store, tmp_path / "home").run()
    yield store
    store.close()


@pytest.mark.parametrize("order", ["relevance", "time"])
@pytest.mark.parametrize("limit", [1, 2, 10])
@pytest.mark.parametrize("template", ["lighthouse OR {}", "lighthouse -{}", "lighthouse (-{} OR look)", "{}"])
def test_a_right_guess_is_answered_like_a_wrong_one(
    leaky: Store, template: str, limit: int, order: SearchOrder
) -> None:
    """The sessions, their order and scores, the number of hits and whether there are more."""
    right, wrong = (template.format(guess) for guess in (f"{SECRET[:8]}*", "ghp_wrong*"))
    plain = [leaky.search.run(parse(query), order=order, now=NOW) for query in (right, wrong)]
    assert plain[0] != plain[1]
    redactor = make_redactor(personal=False)
    for offset in range(5):
        pages = [
            leaky.search.run(parse(query), limit, 1, offset=offset, order=order, now=NOW, redactor=redactor)
            for query in (right, wrong)
        ]
        assert _facts(pages[0]) == _facts(pages[1])
        total = 0 if template == "{}" else 4
        assert len(pages[0].found) == max(0, min(limit, total - offset))
        assert pages[0].more == (offset + limit < total)


def _facts(page: SearchPage) -> object:
    """Everything but the marks, which show the words of the query."""
    found = [
        (each.session.name, each.score, each.more, [(hit.message_index, hit.snippet.text) for hit in each.hits])
        for each in page.found
    ]
    return found, page.more


def test_entries_as_html_are_not_redacted(client: TestClient) -> None:  # type: ignore[type-arg]
    answer = client.get("/api/events", params={"redact": "1", "session": key(client)})
    assert answer.status_code == 400
    assert "Omit either session or redact" in answer.text
