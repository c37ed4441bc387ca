"""Facets count the sessions that a search with the facet's filter finds, and results can be sorted by time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from unspool.search.query import parse
from unspool.store import Store, facets
from unspool.store.facets import count_facets
from unspool.testing.builders import START

from ..web.finding_home import write_home
from .contents import new_store, synced


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("facets")
    with closing(new_store(folder / "sessions.db")) as store:
        synced(store, write_home(folder / "home"))
        yield store


@pytest.mark.parametrize("query", ["lighthouse", "tower", "question", "is:error", "answer OR pytest"])
def test_each_number_is_that_of_the_narrowed_search(store: Store, query: str) -> None:
    now = START + timedelta(days=3)
    counted = count_facets(store.database, parse(query), now)
    assert counted.is_complete
    for name in ("agent", "role", "tool", "after"):
        for facet in getattr(counted, name):
            narrowed = store.search.run(parse(f'{query} {name}:"{facet.value}"', now), 100)
            assert len(narrowed.found) == facet.sessions, (name, facet)
    assert {facet.value for facet in counted.after} <= {"7d", "30d", "365d"}
    assert counted.agent
    assert counted.project


def test_frequent_words_are_counted_up_to_a_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facets, "MOST_MATCHES", 10)
    counted = count_facets(store.database, parse("question"))
    assert not counted.is_complete
    assert sum(facet.sessions for facet in counted.agent) == 1


def test_results_are_sorted_by_time(store: Store) -> None:
    """Sessions by their latest match, and the hits of a session too."""
    found = store.search.run(parse("lighthouse OR answer"), 100, 5, order="time").found
    beginning = datetime.fromtimestamp(0, UTC)
    latest = [max(hit.timestamp or beginning for hit in one.hits) for one in found]
    assert len(latest) > 2
    assert latest == sorted(latest, reverse=True)
    for one in found:
        times = [hit.timestamp or beginning for hit in one.hits]
        assert times == sorted(times, reverse=True)
    best = store.search.run(parse("lighthouse OR answer"), 100, 5).found
    assert {one.session.id for one in best} == {one.session.id for one in found}


def test_pages_of_results_by_time_follow_each_other(store: Store) -> None:
    query = parse("lighthouse")
    whole = [one.session.id for one in store.search.run(query, 100, order="time").found]
    pages = [store.search.run(query, 1, offset=number, order="time") for number in range(len(whole))]
    assert [page.found[0].session.id for page in pages] == whole
    assert [page.more for page in pages] == [True] * (len(whole) - 1) + [False]
