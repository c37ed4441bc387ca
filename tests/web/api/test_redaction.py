"""Answers without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from litestar.testing import TestClient

from unspool.ingest.sync import Syncer
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.store import Store
from unspool.testing import ClaudeLog
from unspool.web.app import create_app
from unspool.web.settings import Settings

from ..conftest import PORT, TOKEN

SECRET = "ghp_" + "a1B2c3D4e5" * 4
WORDS = "lighthouse " * 12


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


def test_entries_as_html_are_not_redacted(client: TestClient) -> None:  # type: ignore[type-arg]
    answer = client.get("/api/events", params={"redact": "1", "session": key(client)})
    assert answer.status_code == 400
    assert "Omit either session or redact" in answer.text
