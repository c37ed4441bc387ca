"""The search index of a store in which an earlier version indexed texts twice: it heals when they are written again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from unspool.core import model as m
from unspool.ingest.store_repair import StoreRepair
from unspool.ingest.verify import Verifier
from unspool.search.query import parse
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.indexed_text import AUTHOR_NUMBER, FIELD_NUMBER, rows_of
from unspool.store.maintenance import Maintenance
from unspool.store.store import Store
from unspool.store.usage_rows import whole_seconds

from .contents import contents, difference, fresh, synced
from .homes import AGENTS, append, log_of, rest_of, write_home

FIXTURES = Path(__file__).parent / "fixtures"


def _index_again(store: Store, session: int, first: int = 0) -> None:
    """Index the texts of messages a second time."""
    with store.transaction():
        for message in store.messages.read(session, first):
            tools = {block.id: block.name for block in message.blocks if isinstance(block, m.ToolCall)}
            store.texts.add(session, rows_of(message, tools.get, whole_seconds(message.timestamp)))


def test_last_messages_that_were_indexed_twice_are_indexed_once_when_a_log_grows(store: Store, tmp_path: Path) -> None:
    """The messages that may still change are compared with the index, and replaced in it."""
    home = tmp_path / "home"
    paths = write_home(home)
    synced(store, home)
    for session, sealed in store.database.rows("SELECT id, sealed FROM session"):
        _index_again(store, session, sealed)
    for agent in AGENTS:
        append(paths[agent], rest_of(log_of(agent, 4), log_of(agent)))
        log_of(agent, 4, "other").write(home)
    synced(store, home)
    assert difference(contents(store), fresh(tmp_path, home)) == ""


def test_a_session_that_was_indexed_twice_is_indexed_once_when_it_is_read_again(store: Store, tmp_path: Path) -> None:
    """Its texts are removed whatever they are."""
    home = tmp_path / "home"
    write_home(home, 40)
    synced(store, home)
    for row in store.sessions.select():
        _index_again(store, row.id)
        store.sessions.read_again(row.id)
    synced(store, home)
    assert difference(contents(store), fresh(tmp_path, home)) == ""


def test_a_repair_indexes_texts_once(store: Store, tmp_path: Path) -> None:
    """Also those of messages that cannot change any more, which a sync does not look at."""
    home = tmp_path / "home"
    write_home(home, 40)
    synced(store, home)
    assert Verifier(store).run().faults == []
    twice = store.sessions.select()[0]
    _index_again(store, twice.id)
    found = Verifier(store).run()
    assert {(fault.id, fault.reason) for fault in found.faults} == {(twice.id, "indexed twice")}
    StoreRepair(store, home).run(found.faults)
    assert found.is_intact
    assert Verifier(store).run().faults == []
    assert difference(contents(store), fresh(tmp_path, home)) == ""


def test_maintenance_indexes_texts_once(tmp_path: Path) -> None:
    """A text that was indexed twice does not keep the others from their ranks."""
    shutil.copy(FIXTURES / "store-0.1.db", tmp_path / "old.db")
    store = Store(SqliteDatabase(tmp_path / "old.db", machine=("laptop", "laptop")))
    queries = json.loads((FIXTURES / "store-0.1.json").read_text())["search"]
    before = {query: sorted(found[:5] for found in store.search.matches(parse(query), 1000)) for query in queries}
    rows = "SELECT session, message, field, author, tool, model, at FROM part ORDER BY 1, 2, 3, 4, 5, 6, 7"
    parts = store.database.rows(rows)
    for row in store.sessions.select():
        _index_again(store, row.id)
    Maintenance(store).run()
    found = {query: sorted(found[:5] for found in store.search.matches(parse(query), 1000)) for query in queries}
    assert found == before
    assert store.database.rows(rows) == parts
    assert store.database.rows(f"SELECT count(*) FROM part WHERE {store.database.words.outdated}") == [(0,)]
    store.close()


def test_the_author_of_a_message_that_was_indexed_twice_is_corrected(store: Store, tmp_path: Path) -> None:
    """It is indexed once, with the right author and field."""
    log_of("codex").write(tmp_path / "home")
    synced(store, tmp_path / "home")
    (row,) = store.sessions.select()
    last = next(message for message in reversed(store.messages.read(row.id)) if message.author == "human")
    _index_again(store, row.id)
    with store.transaction():
        store.texts.set_author(row.id, last, "harness")
    sql = "SELECT field, author FROM part WHERE session = ? AND message = ?"
    expected = FIELD_NUMBER["note"], AUTHOR_NUMBER["harness"]
    assert store.database.rows(sql, row.id, last.index) == [expected]
    query = parse('in:note "please do one of codex number 2"')
    assert len(list(store.search.matches(query, 1000))) == 1
