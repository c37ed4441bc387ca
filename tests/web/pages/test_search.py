"""The search page."""

from __future__ import annotations

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
