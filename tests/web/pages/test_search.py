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
