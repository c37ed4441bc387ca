"""The context at a message is the one of the record, and every message of the session has a state in it."""

from __future__ import annotations

from unspool.store import Store
from unspool.web.context_index import context_index, context_view
from unspool.web.session_query import SessionQuery

from .conftest import session_rows


def test_contexts_equal_those_of_the_record(store: Store) -> None:
    for row in session_rows(store):
        query, session = SessionQuery(store, row), store.messages.load_session(row.id)
        for index in range(0, len(session.messages), 3):
            assert context_index(query).context(index) == session.context_at(index)


def test_spans_cover_everything_and_agree(store: Store) -> None:
    states = set()
    for row in session_rows(store):
        query = SessionQuery(store, row)
        for index in range(0, row.messages, 5):
            view = context_view(query, index)
            covered = [place for part in view.stretches for place in range(part.first, part.last + 1)]
            assert covered == list(range(row.messages))
            parts = [part for part in view.stretches if part.state == "in"]
            inside = {place for part in parts for place in range(part.first, part.last + 1)}
            assert inside == set(context_index(query).context(index).message_indices)
            states |= {part.state for part in view.stretches}
    assert states >= {"in", "summarised", "rewound", "after"}
