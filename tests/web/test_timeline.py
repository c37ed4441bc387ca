"""Marks of a timeline are on its branch."""

from __future__ import annotations

from unspool.store import Store
from unspool.web.session_query import SessionQuery
from unspool.web.timeline import timeline_marks

from .conftest import session_rows


def test_marks_are_on_the_branch(store: Store) -> None:
    kinds = set()
    for row in session_rows(store):
        query = SessionQuery(store, row)
        for mark in timeline_marks(query):
            assert 0 <= mark.at <= 1
            assert mark.index in query.path()
            kinds.add(mark.kind)
    assert kinds >= {"turn", "compaction", "interruption", "rejection", "error", "rewind"}
