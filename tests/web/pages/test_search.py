"""The search page."""

from __future__ import annotations

import pytest

from unspool.web.pages import search

from .helpers import Client, page


def test_search_results_and_errors(client: Client) -> None:
    """Also while it makes no sense yet."""
    parsed = page(client, "/results?q=hello")
    assert "mark" in [tag for tag, _ in parsed.tags]
    assert any("?at=" in href for href in parsed.all("href"))
    assert "Invalid query" in page(client, '/results?q="open').words
    assert "Invalid query" in page(client, "/results?q=(a%2B&regex=1").words
    assert "Nothing found" in page(client, "/results?q=xyzzyplugh").words
    assert "Searches prompts" in page(client, "/results").words


def test_the_page_links_to_further_sessions(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as there are any."""
    monkeypatch.setattr(search, "_MOST_SESSIONS", 3)
    first = page(client, "/search?q=hello")
    assert "3+ sessions" in first.words
    (link,) = (href for href in first.all("href") if "offset=" in href)
    assert link == "/search?q=hello&offset=3"
    assert "sessions 4–" in page(client, link).words
    assert "Nothing found" in page(client, "/search?q=hello&offset=1000").words


def test_facets_narrow_the_search_and_are_removed(client: Client) -> None:
    """Each is a link; what was chosen stays in the form, in the order and on the next page."""
    everything = page(client, "/search?q=hello")
    narrow = next(href for href in everything.all("href") if "agent=codex" in href)
    only = page(client, narrow)
    assert "Remove" in only.words
    assert "/search?q=hello" in only.all("href")
    assert "/search?q=hello&agent=codex&sort=time" in only.all("href")
    assert ("agent", "codex") in [(a.get("name"), a.get("value")) for tag, a in only.tags if tag == "input"]
    assert "Nothing found" in page(client, "/search?q=hello&project=nowhere").words
    assert "Invalid query" in page(client, "/results?q=hello&agent=nobody").words
    assert client.get("/search?q=hello&sort=size").status_code == 400


def test_hits_carry_the_words_to_mark(client: Client) -> None:
    hrefs = page(client, '/results?q=hello -goodbye "do:*" in:user').all("href")
    assert any("&mark=hello" in href for href in hrefs)
    assert not any("goodbye" in href for href in hrefs if "?at=" in href)


def test_a_regular_expression_is_narrowed_too(client: Client) -> None:
    words = page(client, "/results?q=hel+lo|hello&regex=1&agent=codex").words
    assert "Codex CLI" in words
    assert "sorted by" not in words
