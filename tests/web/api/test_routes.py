"""Etags, health, and the same responses with every backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from litestar.testing import TestClient

from unspool.ingest.sync import Syncer
from unspool.store import Store
from unspool.store.backends.postgres import PostgresDatabase
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.filters import SessionFilter
from unspool.store.rows import SessionRow
from unspool.web import session_list
from unspool.web.app import create_app
from unspool.web.run_states import open_calls
from unspool.web.session_query import SessionQuery
from unspool.web.settings import Settings

from ...store import server
from ..conftest import PORT, TOKEN, home_of_recordings
from .helpers import EVENT_LISTS, Client, address_of, get


@pytest.mark.parametrize("tail", ["", "/messages", "/history", "/tree", "/events", "/context/0", "/raw/0"])
def test_a_known_etag_gets_no_body(client: Client, tail: str) -> None:
    """The response has no body and the same etag."""
    first = client.get(f"/api/sessions/1{tail}")
    tag = first.headers["etag"]
    assert tag.startswith('W/"')
    for known in (tag, f'"other", {tag}', tag.removeprefix("W/"), "*"):
        again = client.get(f"/api/sessions/1{tail}", headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = client.get(f"/api/sessions/1{tail}", headers={"if-none-match": 'W/"other"'})
    assert other.content == first.content


@pytest.mark.parametrize("address", ["/api/projects", "/api/sessions", "/api/events/errors", "/api/stats"])
def test_lists_have_etags(client: Client, address: str) -> None:
    """They change when the list does."""
    tag = client.get(address).headers["etag"]
    assert client.get(address, headers={"if-none-match": tag}).status_code == 304


def test_sessions_have_different_etags(client: Client, store: Store) -> None:
    """A tag says which session it is of."""
    tags = [client.get(f"{address_of(row)}/tree").headers["etag"] for row in store.sessions.select()[:50]]
    assert len(set(tags)) == len(tags)


def test_the_etag_changes_when_calls_are_no_longer_running(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether another program's agent is at work is an estimate that changes with the time alone."""
    row = next(
        row
        for row in store.sessions.select(SessionFilter(kind="main"))
        if row.ended_at is not None and row.status not in ("running", "waiting") and _open_calls(store, row)
    )
    assert row.ended_at is not None
    address, ended = address_of(row), row.ended_at.timestamp()
    for tail in ("", "/history", "/events"):
        monkeypatch.setattr(session_list, "time", SimpleNamespace(time=lambda: ended + 1))
        at_first = client.get(f"{address}{tail}")
        assert "running" in at_first.text
        monkeypatch.setattr(session_list, "time", SimpleNamespace(time=lambda: ended + 3600))
        later = client.get(f"{address}{tail}", headers={"if-none-match": at_first.headers["etag"]})
        assert later.status_code == 200
        assert later.json() != at_first.json()


def _open_calls(store: Store, row: SessionRow) -> bool:
    """Whether the calls without a result would be running if the agent were."""
    query = SessionQuery(store, row)
    orphans = query.head.orphans
    return open_calls(orphans, frozenset(), max(query.prompts, default=0)) != orphans


def test_health(client: Client, store: Store) -> None:
    """With the version and the number of sessions."""
    health = get(client, "/api/health")
    assert health["status"] == "ok"
    assert health["sessions"] == len(store.sessions.select())
    assert health["seq"] == store.changes.last_seq()


@pytest.mark.slow
def test_postgresql_gives_the_same_responses(tmp_path: Path) -> None:
    """A shared store is queried in the same way."""
    if server.programs() is None:
        pytest.skip(server.MISSING)
    home = home_of_recordings(tmp_path)
    with ExitStack() as stack:
        addresses = (stack.enter_context(server.running()), str(tmp_path / "sessions.db"))
        postgres, sqlite = (stack.enter_context(_client_of(address, home)) for address in addresses)
        names = [entry["row"]["name"] for entry in get(sqlite, "/api/sessions?limit=500")["sessions"]]
        tails = ("", "/messages", "/history", "/tree", "/events", "/context/0", "/raw/0")
        for question in (*COMPARED, *(f"/api/sessions/{name}{tail}" for name in names[::2] for tail in tails)):
            assert _without_numbers(get(postgres, question)) == _without_numbers(get(sqlite, question)), question


@contextmanager
def _client_of(address: str, home: Path) -> Iterator[Client]:
    """A client of an app with a store that holds what is in a home."""
    machine = ("tests", "tests")
    is_postgres = "://" in address
    store = Store(
        PostgresDatabase(address, machine=machine) if is_postgres else SqliteDatabase(Path(address), machine=machine)
    )
    assert not Syncer(store, home).run().failures
    store.close()
    app = create_app(Settings(token=TOKEN, store=address, port=PORT, follows=False))
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        client.headers["authorization"] = f"Bearer {TOKEN}"
        yield client


COMPARED = [
    "/api/projects", "/api/sessions?limit=500", "/api/sessions?has=rejection&sort=title&limit=500",
    "/api/sessions?q=hello&limit=500", "/api/projects/demo/sessions?limit=500", "/api/stats",
    "/api/stats?project=DEMO&after=2026-11-15T19:00", "/api/search?q=hello&limit=100&hits=20",
    "/api/search?regex=h[a-z]llo&limit=100&hits=20",
    *(f"/api/events/{kind}?limit=500" for kind in EVENT_LISTS),
    "/api/events/rejections?tool=BASH&after=2026-11-15&limit=500",
]  # fmt: skip
"""Questions about everything."""


def _without_numbers(answer: Any) -> Any:
    """An answer without the numbers that depend on what was read first, nor the order of what is equal but for them."""
    if isinstance(answer, list):
        return sorted(map(_without_numbers, answer), key=repr)
    if isinstance(answer, dict):
        return {name: _without_numbers(value) for name, value in answer.items() if not _is_number(name, value)}
    return answer


def _is_number(name: str, value: object) -> bool:
    return name in ("seq", "score") or (name == "id" and isinstance(value, int))
