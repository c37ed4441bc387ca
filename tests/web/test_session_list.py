"""Lists hold every session once, and sessions are found by their names."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from unspool.store import Store
from unspool.store.filters import SessionFilter
from unspool.testing import ClaudeLog
from unspool.web.session_list import find, list_projects, list_sessions, url_name
from unspool.web.views import ListParams

from ..store.contents import new_store, synced


def test_a_session_is_found_by_its_names(store: Store) -> None:
    for row in store.sessions.select(SessionFilter(kind="main")):
        assert find(store, url_name(row)).id == row.id
        assert find(store, str(row.id)).id == row.id


def test_every_session_is_listed_once(store: Store) -> None:
    found = list_sessions(store, ListParams(limit=1000))
    listed = [row.id for item in found.sessions for row in (item.row, *item.subagents)]
    assert sorted(listed) == sorted(row.id for row in store.sessions.select(SessionFilter(is_empty=False)))
    assert any(item.subagents for item in found.sessions)


@pytest.mark.parametrize("kind", ["rejection", "interruption", "compaction", "error", "orphan"])
def test_lists_can_be_filtered(store: Store, kind: str) -> None:
    found = list_sessions(store, ListParams(has=kind))
    assert found.total
    assert all(item.row.counts[kind] for item in found.sessions)


def test_projects(store: Store) -> None:
    assert sum(row.sessions for row in list_projects(store)) == sum(
        row.project is not None for row in store.sessions.select(SessionFilter(kind="main"))
    )


def test_a_sub_agent_whose_session_has_no_messages_is_listed_itself(tmp_path: Path) -> None:
    """Sessions without messages are left out, and nobody would find it below one."""
    log = ClaudeLog("lonely")
    log.user("explore the harbour", "task", isSidechain=True, agentId="a1")
    log.model("found a lighthouse", isSidechain=True, agentId="a1")
    log.write(tmp_path / "home")
    with closing(new_store(tmp_path / "sessions.db")) as store:
        synced(store, tmp_path / "home")
        (listed,) = list_sessions(store, ListParams()).sessions
        assert (listed.row.kind, listed.row.title, listed.row.messages) == ("subagent", "explore the harbour", 2)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\nb", "123", "x" * 100_000])
def test_names_that_addresses_cannot_contain(store: Store, name: str) -> None:
    """Browsers and servers change or reject them; the number of the session always works."""
    row = replace(store.sessions.select()[0], name=name)
    assert url_name(row) == str(row.id)
