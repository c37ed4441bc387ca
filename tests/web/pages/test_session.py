"""The page of a session, comparisons of branches, images and exports."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from litestar.testing import TestClient

from unspool.store import Store
from unspool.testing import ClaudeLog
from unspool.web.app import create_app
from unspool.web.session_list import url_name
from unspool.web.settings import Settings
from unspool.web.templating import address
from unspool.web.transcript_pages import TranscriptPages

from ...store.contents import new_store, synced
from ..conftest import PORT, TOKEN
from .helpers import Client, assert_valid_structure, page, queries, query_with


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
    query = query_with(store, "branch")
    branch = next(branch for branch in query.head.branches if branch.parent_index is not None)
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


def test_requests_that_contradict_the_context_are_linked(tmp_path: Path) -> None:
    """They are no damage, and the page says so."""
    log = ClaudeLog()
    for number in range(20):
        log.user(f"Question {number} " + "x" * 9_000)
        log.model("Yes.", tokens=20_000 + 3_000 * (number % 10))
    log.write(tmp_path)
    with closing(new_store(tmp_path / "store.db")) as store:
        synced(store, tmp_path)
    app = create_app(Settings(token=TOKEN, store=str(tmp_path / "store.db"), port=PORT, follows=False))
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        client.headers.update({"authorization": f"Bearer {TOKEN}"})
        parsed = page(client, "/sessions/latest")
    words = " ".join(parsed.words.split())
    assert "The size of 1 request contradicts the context that is shown for it: #21" in words
    assert "could not be read" not in words
    assert any(str(link).endswith("?at=21#m21") for link in parsed.all("href"))
