"""Frequent words in PostgreSQL: the newest eras are searched first, and the answer is that of one statement."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from unspool.search.query import parse
from unspool.store.backends import postgres_words
from unspool.store.backends.postgres import PostgresDatabase
from unspool.store.facets import SearchFacets, count_facets
from unspool.store.indexed_text import AUTHOR_NUMBER, FIELDS, TextRow
from unspool.store.rows import NOTHING
from unspool.store.search import Match
from unspool.store.store import Store

from ..contents import MACHINE

NOW = datetime(2026, 11, 1, tzinfo=UTC)
_DAY = 86_400
_LONG = " ".join(f"w{number}" for number in range(20_000))
"""Too long for one vector."""
QUERIES = ["common", "common -rare", '"common words"', "common w19999", "in:output", "rare", "com* OR w7"]


@pytest.fixture(scope="module")
def address(postgres_server: str) -> Iterator[str]:
    """A store with texts of four years."""
    from .. import server

    server.drop_database(postgres_server, "eras")
    address = server.new_database(postgres_server, "eras")
    store = Store(PostgresDatabase(address, machine=MACHINE))
    chance = random.Random(5)
    with store.transaction():
        for session in range(12):
            id = store.sessions.create("claude", f"session {session}", f"session {session}")
            store.texts.add(id, [_text(chance, message) for message in range(80)])
    store.close()
    yield address
    server.drop_database(postgres_server, "eras")


def _text(chance: random.Random, message: int) -> TextRow:
    at = int(NOW.timestamp()) - chance.randrange(1400 * _DAY) if message else NOTHING
    words = f"common words {'rare' if message % 20 == 7 else 'other'} {message}"
    text = f"common {_LONG}" if message == 40 else words
    return message, chance.randrange(len(FIELDS)), AUTHOR_NUMBER["human"], "", "", at, text


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    store = Store(PostgresDatabase(address, machine=MACHINE))
    yield store
    store.close()


def _answer(store: Store, query: str) -> tuple[list[Match], SearchFacets]:
    parsed = parse(query)
    return store.search.matches(parsed, 10_000), count_facets(store.database, parsed, NOW)


@pytest.mark.parametrize("query", QUERIES)
def test_the_answer_is_that_of_one_statement(store: Store, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _answer(store, query)
    assert len(list(store.database.words.in_order(parse(query).match))) == 1
    monkeypatch.setattr(postgres_words, "MIN_MATCHES_FOR_ERAS", 0)
    assert len(list(store.database.words.in_order(parse(query).match))) == 7
    assert _answer(store, query) == expected
    assert len(expected[0]) > 10


def test_only_the_newest_eras_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search ends as soon as no other text can change what is shown."""
    monkeypatch.setattr(postgres_words, "MIN_MATCHES_FOR_ERAS", 0)
    monkeypatch.setattr("unspool.store.search._FEWEST", 20)
    iterate, values = store.database.iterate, list[object]()

    def counting(sql: str, *given: object) -> Iterator[object]:
        values.append(given[0])
        return iterate(sql, *given)

    monkeypatch.setattr(store.database, "iterate", counting)
    assert store.search.run(parse("common"), 2).found
    assert 1 <= len(values) < 7
    assert len(set(values)) == len(values)


def test_texts_of_an_earlier_version_get_their_eras(address: str, store: Store) -> None:
    """The numbers in the migration are those of the ranking."""
    database = store.database
    sql = """SELECT part, array_agg(lexeme) FROM (SELECT part, words FROM words UNION ALL SELECT part, words FROM piece)
        AS vectors, unnest(words) WHERE lexeme LIKE ' %' GROUP BY part ORDER BY part"""
    before = database.rows(sql), database.rows("SELECT number FROM era ORDER BY number")
    assert len(before[0]) == 12 * 80
    for table in ("words", "piece"):
        eras = "ARRAY(SELECT lexeme FROM unnest(words) WHERE lexeme LIKE ' %')"
        database.rows(f"UPDATE {table} SET words = ts_delete(words, {eras})")
    assert database.rows(sql) == []
    database.rows("DROP TABLE era")
    database.rows("DROP FUNCTION add_member(NAME, BOOLEAN)")
    database.rows("ALTER FUNCTION add_member_to_annotations(NAME, BOOLEAN) RENAME TO add_member")
    database.rows("UPDATE store_version SET version = 7")
    upgraded = Store(PostgresDatabase(address, machine=MACHINE))
    try:
        assert (database.rows(sql), database.rows("SELECT number FROM era ORDER BY number")) == before
    finally:
        upgraded.close()
