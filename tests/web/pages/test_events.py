"""The lists of events."""

from __future__ import annotations

from .helpers import Client, page


def test_event_list_filters(client: Client) -> None:
    """By agent, tool and time."""
    everything = page(client, "/events/rejections")
    assert everything.words.count("rejected by") > 3
    assert "Nothing here with these filters" in page(client, "/events/rejections?after=2099-01-01").words
    assert page(client, "/events/rejections?agent=gemini&tool=replace").words.count("rejected by") >= 1
    assert page(client, "/events/refused").words == everything.words
