"""The list of sessions."""

from __future__ import annotations

from unspool.store import Store

from .helpers import Client, page


def test_session_list_filters(client: Client, store: Store) -> None:
    """They narrow it, can be combined and taken back."""
    everything = page(client, "/list")
    only = page(client, "/list?agent=codex&has=rejection")
    agents = set(only.all("data-agent"))
    assert agents == {"codex"}
    assert len(only.all("data-agent")) < len(everything.all("data-agent"))
    assert "/?has=rejection" in only.all("href")
    assert page(client, "/list?agent=codex&has=rejected").words == only.words
    assert "No sessions match" in page(client, "/list?q=nothing-is-called-so").words
