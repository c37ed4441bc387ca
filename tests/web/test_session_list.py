"""Lists hold every session once, and sessions are found by their names."""

from __future__ import annotations

import pytest

from unspool.store import Store
from unspool.store.filters import SessionFilter
from unspool.web.session_list import find, list_projects, list_sessions, url_name
from unspool.web.views import ListParams


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
