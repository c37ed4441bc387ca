"""Parts of a session page that are loaded later."""

from __future__ import annotations

from unspool.core import model as m
from unspool.render.sanitize import harmless
from unspool.store import Store
from unspool.web.session_list import url_name
from unspool.web.templating import address

from .helpers import Client, page, queries, query_with, query_with_fork


def test_a_page_of_a_session_is_a_section(client: Client, store: Store) -> None:
    """Together they hold every message that is shown."""
    query = max(queries(store), key=lambda query: query.row.messages)
    base = address(url_name(query.row))
    for number in range(query.pages()):
        parsed = page(client, f"{base}/pages/{number}?branch=0")
        ((_, section),) = [(tag, attributes) for tag, attributes in parsed.tags if tag == "section"][:1]
        assert section["class"] == "page"
        assert section["data-page"] == str(number)
    assert client.get(f"{base}/pages/{query.pages()}").status_code == 404


def test_branch_fragment(client: Client, store: Store) -> None:
    """Its own messages, under their own anchors."""
    query, branch = query_with_fork(store)
    parsed = page(client, f"{address(url_name(query.row))}/branches/{branch.id}")
    assert set(parsed.all("data-branch")) == {str(branch.id)}
    assert client.get(f"{address(url_name(query.row))}/branches/99").status_code == 404


def test_replaced_messages_fragment(client: Client, store: Store) -> None:
    """Beside the summary."""
    query = query_with(store, "compaction")
    boundary = query.head.compaction.boundaries[0]
    parsed = page(client, f"{address(url_name(query.row))}/replaced/{boundary.message_index}")
    assert "Summary" in parsed.words
    assert f"{len(boundary.replaced_message_indices)} messages" in parsed.words
    assert parsed.all("id") == []


def test_full_output_of_every_block(client: Client, store: Store) -> None:
    """Text, outputs, inputs and notes."""
    query = query_with(store, "rejection")
    for message in query.messages(0, query.row.messages):
        for place, block in enumerate(message.blocks):
            parsed = page(client, f"{address(url_name(query.row))}/outputs/{message.index}/{place}")
            if isinstance(block, m.ToolResult):
                assert harmless(block.content) in parsed.words
    assert client.get(f"{address(url_name(query.row))}/outputs/0/99").status_code == 404


def test_context_fragment(client: Client, store: Store) -> None:
    """Every message of the session has a state."""
    query = query_with(store, "compaction")
    last = query.row.messages - 1
    parsed = page(client, f"{address(url_name(query.row))}/context/{last}")
    firsts, lasts = parsed.all("data-first"), parsed.all("data-last")
    assert int(firsts[0]) == 0
    assert int(lasts[-1]) == last
    assert [int(first) for first in firsts[1:]] == [int(end) + 1 for end in lasts[:-1]]


def test_subagent_names_with_a_slash(client: Client, store: Store) -> None:
    """By number, and by name with the slash replaced."""
    row = next(row for row in store.sessions.select() if "/" in row.name)
    parsed = page(client, f"{address(row.name)}/embedded")
    assert f"s{row.id}." in parsed.all("data-key")[1]
    page(client, address(url_name(row)))
