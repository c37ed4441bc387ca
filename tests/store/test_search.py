"""Search: the order of results, and what is read to find them."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from unspool.core import model as m
from unspool.search.query import parse
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.database import Row
from unspool.store.filters import SessionFilter
from unspool.store.indexed_text import FIELDS, EncodedRow, Field, TextRow, no_tool_name, rows_of
from unspool.store.ranking import bucket, bucket_of, first_id, rank
from unspool.store.rows import NOTHING
from unspool.store.store import Store

from .contents import new_store

NOW = datetime(2026, 11, 17, tzinfo=UTC)
DAY = 86400


def _text(message: int, field: Field, days: float | None, text: str = "common") -> TextRow:
    """A text of some age."""
    at = NOTHING if days is None else int(NOW.timestamp() - days * DAY)
    return message, FIELDS.index(field), 0, "", "", at, text


def _add(store: Store, name: str, *texts: TextRow | EncodedRow) -> int:
    id = store.sessions.create("claude", name, name)
    store.texts.add(id, list(texts))
    return id


def _names(store: Store, query: str = "common", limit: int = 100, offset: int = 0) -> list[str]:
    return [found.session.name for found in store.search.run(parse(query), limit, offset=offset, now=NOW).found]


def _expected(texts: list[TextRow]) -> tuple[int, int]:
    """What sessions are sorted by: the best match, and six hours for each of two others if they are nearly as good."""
    ranks = sorted((rank(row[1], row[5]) for row in texts), reverse=True)
    further = sum(other > ranks[0] - 12 * 3600 for other in ranks[1:3])
    return -(ranks[0] + further * 6 * 3600), -ranks[0]


def test_a_text_of_the_year_9999_is_found_with_the_others(store: Store) -> None:
    """A log can say anything; searching for it must not fail."""
    with store.transaction():
        _add(store, "today", _text(0, "user", 0))
        _add(store, "9999", _text(0, "user", -2_900_000))
        _add(store, "1", _text(0, "user", 700_000))
    assert _names(store) == ["9999", "today", "1"]


def test_encoded_text_is_indexed_like_text(store: Store) -> None:
    """Other processes pass on UTF-8; the text may also contain a zero."""
    text = "naïve Straße 日本語\0after"
    with store.transaction():
        _add(store, "text", _text(0, "user", 1, text))
        _add(store, "encoded", (*_text(0, "user", 1)[:-1], text.encode()))
    for word in ("naïve", "STRASSE OR straße", "日本語", "after"):
        assert sorted(_names(store, word)) == ["encoded", "text"]


# --- order ------------------------------------------------------------------------------------------------------------


def test_results_are_ordered_by_field_and_time(store: Store) -> None:
    """What a person wrote counts as much as output that is 48 days newer, what a model wrote as much as 30 days."""
    with store.transaction():
        _add(store, "prompt of 40 days ago", _text(0, "user", 40))
        _add(store, "prompt of 50 days ago", _text(0, "user", 50))
        _add(store, "output of today", _text(0, "output", 0))
        _add(store, "answer of 29 days ago", _text(0, "answer", 29))
        _add(store, "answer of 31 days ago", _text(0, "answer", 31))
        _add(store, "unknown time", _text(0, "user", None))
        _add(store, "note of today", _text(0, "note", 0))
    assert _names(store) == [
        "prompt of 40 days ago",
        "answer of 29 days ago",
        "output of today",
        "answer of 31 days ago",
        "prompt of 50 days ago",
        "note of today",
        "unknown time",
    ]


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_insertion_does_not_matter(store: Store, seed: int) -> None:
    """The same sessions, stored in any order and in any kind of store, are found in the same order with the same hits.

    Many have equal times, and some texts lie in the same bucket in another order than they were stored.
    """
    chance = random.Random(7)
    sessions = [
        (f"session {number}", [_text(index, chance.choice(FIELDS), chance.randrange(4000) / 500) for index in range(9)])
        for number in range(40)
    ]
    sessions += [(f"twin {number}", [_text(0, "user", 1)]) for number in range(5)]
    best = {name: (*_expected(texts), name) for name, texts in sessions}
    random.Random(seed).shuffle(sessions)
    for name, texts in sessions:
        with store.transaction():
            _add(store, name, *texts)
    expected = sorted(best, key=best.__getitem__)
    assert _names(store) == expected
    assert _names(store, limit=5) + _names(store, limit=40, offset=5) == expected
    page = store.search.run(parse("common"), 100, 9, now=NOW)
    for found in page.found:
        ranks = [rank(FIELDS.index(hit.field), int(hit.timestamp.timestamp())) for hit in found.hits if hit.timestamp]
        assert ranks == sorted(ranks, reverse=True)


def test_all_sessions_can_be_paged_through(store: Store) -> None:
    """A word that is in every session: pages follow each other without gaps and repeats, and the last says so."""
    names = [f"{number:03}" for number in range(65)]
    with store.transaction():
        for age, name in enumerate(names):
            _add(store, name, *(_text(message, "output", age / 2 + message / 100) for message in range(8)))
    pages = [store.search.run(parse("common"), 20, offset=offset, now=NOW) for offset in (0, 20, 40, 60)]
    assert [found.session.name for page in pages for found in page.found] == names
    assert [page.more for page in pages] == [True, True, True, False]
    assert store.search.run(parse("common"), 20, offset=65).found == []
    scores = [found.score for page in pages for found in page.found]
    assert scores == sorted(scores, reverse=True)


def test_a_corrected_author_changes_the_order(store: Store) -> None:
    """A prompt that turns out to be a note loses its rank, and can be removed afterwards."""
    message = m.Message(0, "user", "human", [m.Text("hello"), m.Thinking("deep")], m.Source(0, 0, 0, 0), timestamp=NOW)
    with store.transaction():
        id = _add(store, "one", *rows_of(message, no_tool_name, int(NOW.timestamp())))
        _add(store, "other", _text(0, "output", 0, "hello"))
    assert _names(store, "hello") == ["one", "other"]
    with store.transaction():
        store.texts.set_author(id, message, "harness")
    assert _names(store, "hello") == ["other", "one"]
    assert _names(store, "hello role:harness in:note") == ["one"]
    message.author = "harness"
    with store.transaction():
        store.texts.remove(id, [message])
    assert _names(store, "hello OR deep") == ["other"]


# --- SQLite: the index is in the order of results ---------------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    """An empty store in a file."""
    store = new_store(tmp_path / "store.db")
    assert isinstance(store.database, SqliteDatabase)
    yield store.database
    store.close()


@pytest.mark.parametrize("query", ["common", "common in:output", "common agent:claude project:a", "in:output"])
def test_matches_are_not_sorted(database: SqliteDatabase, query: str) -> None:
    """The index itself gives the matches in their order, however a query is filtered."""
    statements: list[str] = []
    database._connection.set_trace_callback(statements.append)
    Store(database).search.run(parse(query))
    database._connection.set_trace_callback(None)
    (search,) = (sql for sql in statements if "part.field" in sql)
    plan = [str(row[3]) for row in database.rows(f"EXPLAIN QUERY PLAN {search}")]
    assert "words VIRTUAL TABLE INDEX" in plan[0] if "common" in query else "SCAN part" in plan[0]
    assert not any("TEMP B-TREE" in step for step in plan)


@pytest.mark.parametrize("filter", [SessionFilter(has="rejection"), SessionFilter(has_all=("rejection", "error"))])
def test_events_are_looked_up_by_session(database: SqliteDatabase, filter: SessionFilter) -> None:
    """Not by their kind: all events of that kind would be visited for each session."""
    condition, values = filter.condition()
    rows = database.rows(f"EXPLAIN QUERY PLAN SELECT id FROM session WHERE {condition} ORDER BY ended", *values)
    steps = [step for *_, step in rows if "SEARCH event" in step]
    assert steps
    assert all("PRIMARY KEY (session=?" in step for step in steps)


def test_only_the_best_matches_of_a_frequent_word_are_read(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first page of a word that is in 20,000 texts of 500 sessions costs about as much as it shows."""
    store = Store(database)
    with store.transaction():
        for number in range(500):
            texts = (_text(message, "output", 1000 - 2 * number - message / 100) for message in range(40))
            _add(store, str(number), *texts)
    rows = 0
    iterate = database.iterate

    def counting(sql: str, *values: object) -> Generator[Row]:
        nonlocal rows
        with closing(iterate(sql, *values)) as found:
            for row in found:
                rows += 1
                yield row

    monkeypatch.setattr(database, "iterate", counting)
    page = store.search.run(parse("common"), 20)
    assert [found.session.name for found in page.found] == [str(number) for number in range(499, 479, -1)]
    assert page.more
    assert rows < 23 * 40


def test_a_full_bucket_takes_no_more(database: SqliteDatabase) -> None:
    """Texts that do not fit into their bucket are in the next one; they are found and removed like others."""
    store = Store(database)
    results: list[m.Block] = [m.ToolResult(id, f"common {id}", "ok") for id in "ab"]
    message = m.Message(0, "user", "human", results, m.Source(0, 0, 0, 0))
    at = int(NOW.timestamp())
    full = bucket(FIELDS.index("output"), at)
    with store.transaction():
        other = _add(store, "other", _text(0, "output", 0))
        database.rows("UPDATE part SET id = ? WHERE session = ?", first_id(full + 1) - 2, other)
    with store.transaction():
        id = _add(store, "one", *rows_of(message, no_tool_name, at))
    ids = [row[0] for row in database.rows("SELECT id FROM part WHERE session = ? ORDER BY id", id)]
    assert [bucket_of(id) for id in ids] == [full, full + 1]
    assert [match.message for match in store.search.matches(parse("common session:one"), 9)] == [0, 0]
    with store.transaction():
        store.texts.remove(id, [message])
    assert store.search.matches(parse("common session:one"), 9) == []


def test_an_id_can_be_used_again_in_the_same_transaction(database: SqliteDatabase) -> None:
    """A text that is removed and another that takes its id: only the other is found."""
    store = Store(database)
    source = m.Source(0, 0, 0, 0)
    with store.transaction():
        id = _add(store, "one", _text(0, "user", 0, "first"))
    with store.transaction():
        store.texts.remove(id, [m.Message(0, "user", "human", [m.Text("first")], source)])
        store.texts.add(id, [_text(0, "user", 0, "second")])
        store.texts.remove(id, [m.Message(0, "user", "human", [m.Text("second")], source)])
        store.texts.add(id, [_text(0, "user", 0, "third")])
    assert [_names(store, word) for word in ("first", "second", "third")] == [[], [], ["one"]]
