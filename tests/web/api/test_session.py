"""Sessions in the API: heads, messages, history and other views."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from unspool.core import model as m
from unspool.core.session import Session
from unspool.store import Store
from unspool.store.filters import SessionFilter
from unspool.web.session_query import SessionQuery

from .helpers import AGENTS, Client, address_of, get, plain, rows_of


@pytest.mark.parametrize("agent", AGENTS)
def test_sessions_equal_the_records(client: Client, store: Store, agent: str) -> None:
    """Heads and messages of all recordings, including the raw JSON in them."""
    rows = rows_of(store, agent)
    assert len(rows) > 20
    for row in rows:
        record = plain(store.messages.load_session(row.id))
        head = get(client, address_of(row))
        assert {name: value for name, value in head.items() if name not in ("seq", "stored")} == {
            name: value for name, value in record.items() if name not in ("messages", "type")
        }
        assert head["stored"] == plain(row)
        found = get(client, f"{address_of(row)}/messages")
        assert found["messages"] == record["messages"]
        assert (found["first"], found["last"], found["total"]) == (0, row.messages, row.messages)


@pytest.mark.parametrize("agent", AGENTS)
def test_session_views_match_the_published_schema(client: Client, store: Store, agent: str) -> None:
    """History, tree, events, contexts and raw records of every session."""
    for row in rows_of(store, agent):
        address = address_of(row)
        tree = get(client, f"{address}/tree")
        held = sorted(
            index for line in tree["lines"] for first, last in line["runs"] for index in range(first, last + 1)
        )
        assert held == list(range(row.messages))
        for line in tree["lines"]:
            get(client, f"{address}/history", branch=line["id"])
        events = get(client, f"{address}/events")["events"]
        assert len(events) == sum(count for kind, count in row.counts.items() if kind != "messages")
        if row.messages:
            context = get(client, f"{address}/context/{row.messages - 1}")
            expected = store.messages.load_session(row.id).context_at(row.messages - 1)
            assert context["count"] == len(expected.message_indices)
            assert get(client, f"{address}/raw/{row.messages - 1}")


def test_a_raw_record_is_the_bytes_of_the_log(client: Client, store: Store) -> None:
    """Found by the source that the message names."""
    row = next(row for row in rows_of(store, "claude") if row.kind == "main" and row.messages > 10)
    record = store.messages.load_session(row.id)
    for message in record.messages:
        raw = get(client, f"{address_of(row)}/raw/{message.index}")
        with open(record.info.files[message.source.file].path, "rb") as file:
            file.seek(message.source.offset)
            assert raw == file.read(message.source.length)


def test_session_names_with_slashes(client: Client, store: Store) -> None:
    """Sub-agents are named after their session; escaped or not, by name or by number, it is the same one."""
    row = next(row for row in store.sessions.select() if "/" in row.name)
    for key in (quote(row.name, safe=""), row.name, str(row.id)):
        assert get(client, f"/api/sessions/{key}")["stored"]["id"] == row.id
        assert get(client, f"/api/sessions/{key}/messages", last=1)["total"] == row.messages


def test_subagents_by_project_and_id(client: Client, store: Store) -> None:
    """The whole record, whether the project is given by its path or its name."""
    rows = [row for row in store.sessions.select(SessionFilter(kind="subagent")) if row.project is not None]
    assert {row.agent for row in rows} >= {"claude", "codex"}
    for row in rows:
        project, agent_id = row.project or "", row.name.rsplit("/", 1)[-1]
        for name in (project, project.rsplit("/", 1)[-1]):
            found = get(client, f"/api/projects/{quote(name, safe='')}/agent-sessions/{quote(agent_id, safe='')}")
            assert found == plain(store.messages.load_session(row.id))


def test_paging_through_messages(client: Client, store: Store) -> None:
    """From any index to any other; beyond the end there are none."""
    row = max(store.sessions.select(), key=lambda row: row.messages)
    address = f"{address_of(row)}/messages"
    whole = get(client, address)["messages"]
    for first in (0, 1, 63, 64, 65, row.messages - 1):
        assert get(client, address, first=first, last=first + 9)["messages"] == whole[first : first + 9]
    assert get(client, address, first=row.messages + 5)["messages"] == []


def without_location(item: dict[str, Any]) -> dict[str, Any]:
    """Some logs hold a result twice; which of the two is shown does not matter."""
    call = item.get("call") or {}
    places = ("result_index", "result_place", "seconds")
    return {**item, "call": {name: value for name, value in call.items() if name not in places}}


@pytest.mark.parametrize("agent", AGENTS)
def test_paging_backwards_through_history(client: Client, store: Store, agent: str) -> None:
    """All pages together are the whole branch, whatever their size."""
    for row in rows_of(store, agent)[:25]:
        address = f"{address_of(row)}/history"
        whole = get(client, address, limit=200)
        assert whole["before"] is None
        items: list[Any] = []
        page = get(client, address, limit=3)
        while True:
            items = page["items"] + items
            if page["before"] is None:
                break
            page = get(client, address, limit=3, before=page["before"])
        assert list(map(without_location, items)) == list(map(without_location, whole["items"]))


@pytest.mark.parametrize("agent", AGENTS)
def test_history_is_the_active_branch(client: Client, store: Store, agent: str) -> None:
    """The text of the active branch, and each of its calls once, with its result."""
    for row in rows_of(store, agent):
        record = store.messages.load_session(row.id)
        found = get(client, f"{address_of(row)}/history", limit=200)
        items = found["items"]
        assert found["length"] == len(record.active_path())
        assert len({item["key"] for item in items}) == len(items)
        assert all(record.messages[item["index"]].branch == 0 for item in items)
        assert [item["text"] for item in items if item["kind"] == "answer"] == list(_answers(record))
        calls = {item["call"]["id"]: item["call"] for item in items if item["kind"] == "call"}
        results = {
            block.call_id: plain(block)
            for message in record.active_path()
            for block in message.blocks
            if isinstance(block, m.ToolResult)
        }
        for message in record.active_path():
            for block in message.blocks:
                if isinstance(block, m.ToolCall):
                    result = calls[block.id]["result"]
                    assert (result or {}).get("content") == results.get(block.id, {}).get("content")


def _answers(record: Session) -> Iterator[str]:
    for message in record.active_path():
        if message.author == "model" and message.role == "assistant":
            yield from (b.text for b in message.blocks if isinstance(b, m.Text) and b.text.strip())


def test_history_has_the_number_of_the_last_change(client: Client, store: Store) -> None:
    """A client that follows the changes from there misses nothing and gets nothing twice."""
    row = store.sessions.select()[0]
    assert get(client, f"{address_of(row)}/history")["seq"] == store.changes.last_seq()


def test_image_data_is_left_out_of_history(client: Client, store: Store) -> None:
    """The bytes of pictures are not in the history."""
    seen = 0
    for row in store.sessions.select():
        for item in get(client, f"{address_of(row)}/history", limit=200)["items"]:
            if item["kind"] == "image":
                seen += 1
                assert "data" not in item["image"]
                assert item["image"].get("path", "/sessions/").startswith("/sessions/")
            for part in ((item.get("call") or {}).get("result") or {}).get("parts", ()):
                assert part.get("data") is None
    assert seen


def test_unfinished_calls_are_marked_hidden_or_synthesized(client: Client, store: Store) -> None:
    """As they are, not at all, or with a result marked as synthetic."""
    key = next(row.id for row in store.sessions.select() if row.counts.get("orphan"))
    found = {
        mode: get(client, f"/api/sessions/{key}/history", orphans=mode, limit=200)["items"]
        for mode in ("mark", "hide", "synthesize")
    }
    marked = [item for item in found["mark"] if (item.get("call") or {}).get("orphan")]
    assert marked
    assert found["hide"] == [item for item in found["mark"] if item not in marked]
    made_up = [item for item in found["synthesize"] if (item.get("call") or {}).get("orphan")]
    assert [item["key"] for item in made_up] == [item["key"] for item in marked]
    assert all(item["call"]["result"]["synthetic"] for item in made_up)


def test_a_message_is_explained(client: Client, store: Store) -> None:
    """With rules and lines, as the command explains it."""
    row = next(row for row in store.sessions.select() if row.counts.get("rejection"))
    (rejection, *_) = SessionQuery(store, row).head.rejections
    found = client.get(f"/api/sessions/{row.id}/explanation/{rejection.message_index}").json()
    (fact,) = [fact for fact in found["facts"] if fact["about"] == "rejection" and fact["says"] == "a rejection"][:1]
    assert fact["evidence"] == rejection.evidence
    assert fact["rule"]
    assert found["line"]["message_index"] == rejection.message_index
    assert client.get(f"/api/sessions/{row.id}/explanation/999999").status_code == 404
    assert "Otherwise:" in client.get(f"/sessions/{row.id}/context/{rejection.message_index}").text
