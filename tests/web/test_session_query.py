"""Positions, pages and raw records of a session agree with its record."""

from __future__ import annotations

from unspool.store import Store
from unspool.web.session_query import PAGE_SIZE, SessionQuery

from .conftest import session_rows


def test_positions_and_pages_lead_back(store: Store) -> None:
    for row in session_rows(store):
        query = SessionQuery(store, row)
        path = query.path()
        for position in range(len(path)):
            index = path.index_at(position)
            assert index in path
            assert path.position_of(index) == position
            assert query.page_of(index) == position // PAGE_SIZE


def test_raw_records_are_the_lines_of_the_log(store: Store) -> None:
    checked = 0
    for row in session_rows(store):
        query = SessionQuery(store, row)
        for index in range(0, row.messages, 7):
            source = query.message(index).source
            raw = query.raw(index)
            assert len(raw) == source.length
            path = query.head.info.files[source.file].path
            if path.endswith(".jsonl"):
                with open(path, "rb") as file:
                    assert file.read().splitlines()[source.line - 1][: len(raw)] == raw
                    checked += 1
    assert checked > 100
