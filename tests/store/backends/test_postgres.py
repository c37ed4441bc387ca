"""What only a store in PostgreSQL has to get right: many writers, what its text cannot hold, and what may go wrong."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from unspool.core.errors import BusyError, UnspoolError
from unspool.search.query import parse
from unspool.search.tokenizer import words_in
from unspool.store.backends import postgres
from unspool.store.backends.postgres import PostgresDatabase
from unspool.store.database import Row
from unspool.store.filters import SessionFilter
from unspool.store.indexed_text import AUTHOR_NUMBER, FIELD_NUMBER, TextRow
from unspool.store.migrations import Migrations
from unspool.store.rows import NOTHING
from unspool.store.store import Store
from unspool.store.tsvector import vectors

from ...waiting import PATIENCE
from ..contents import MACHINE, contents, difference, fresh, synced
from ..homes import claude_log, write_home
from ..server import GUARDED

SECRET = "s3cret/wórd@:%"
SECRET_IN_ADDRESS = "s3cret%2Fw%C3%B3rd%40%3A%25"


@pytest.fixture
def open_store(postgres_address: str) -> Iterator[Callable[..., Store]]:
    opened: list[Store] = []

    def open(key: str = MACHINE[0]) -> Store:
        opened.append(Store(PostgresDatabase(postgres_address, machine=(key, key))))
        return opened[-1]

    yield open
    for store in opened:
        store.close()


def _together(*works: Callable[[], object]) -> None:
    """Run functions at the same time; all have to succeed."""
    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(work) for work in works]:
            done.result(PATIENCE)


def _text(text: str, message: int = 0) -> TextRow:
    return message, FIELD_NUMBER["user"], AUTHOR_NUMBER["human"], "", "", NOTHING, text


# --- many writers -----------------------------------------------------------------------------------------------------


def test_programs_that_start_at_once_make_the_tables_once(open_store: Callable[..., Store]) -> None:
    """One makes them, the others wait and find them."""
    _together(*(partial(open_store, key) for key in "abcdef"))
    assert open_store().database.rows("SELECT version FROM store_version") == [(Migrations("postgres").newest,)]
    assert len(open_store().database.rows("SELECT id FROM machine")) == 7


def test_ids_of_parts_are_taken_without_waiting(open_store: Callable[..., Store]) -> None:
    """Ids are unique, and no client waits for another's transaction."""
    first, second = open_store("a"), open_store("b")
    with first.transaction():
        one = first.database.words.allocate_ids([0] * 10)
        with second.transaction():
            two = second.database.words.allocate_ids([0] * 5)
        three = first.database.words.allocate_ids([0])
    assert [two[0] - one[0], three[0] - two[0]] == [10, 5]


def test_new_names_do_not_lock_each_other(open_store: Callable[..., Store]) -> None:
    """Two machines that meet the same names in opposite orders."""
    stores = open_store("a"), open_store("b")
    met = threading.Barrier(2, timeout=PATIENCE)

    def meet(store: Store, names: str) -> None:
        with store.transaction():
            store.database.names.ids({names[0]})
            met.wait()
            store.database.names.ids({names[1]})

    _together(lambda: meet(stores[0], "xy"), lambda: meet(stores[1], "yx"))
    assert stores[0].database.names.ids({"x", "y"}) == stores[1].database.names.ids({"x", "y"})
    assert len(stores[0].database.rows("SELECT id FROM name")) == 2


def test_change_numbers_become_visible_in_order(open_store: Callable[..., Store]) -> None:
    """A client that has read up to a number misses nothing: lower numbers never appear later."""
    slow, quick, reader = open_store("a"), open_store("b"), open_store("c")
    with slow.transaction():
        slow.changes.append("slow", None)
        with quick.transaction():
            quick.changes.append("quick", None)
        seen = [entry.kind for entry in reader.changes.since()]
        last = reader.changes.since()[-1].seq
    assert seen == ["quick"]
    assert [entry.kind for entry in reader.changes.since(last)] == ["slow"]
    quick.changes.append("alone", None)
    assert [entry.kind for entry in reader.changes.since()] == ["quick", "slow", "alone"]


def test_no_lock_is_waited_for_without_end(open_store: Callable[..., Store], monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that holds it may have been cut off: the server keeps its locks until it notices."""
    holder = open_store()
    monkeypatch.setattr(postgres, "_LOCK_SECONDS", 0.05)
    waiter = open_store()
    with holder.exclusive():
        for patience in (None, 0.01, None):
            with pytest.raises(BusyError), waiter.exclusive(patience):
                pass
    with holder.transaction():
        holder.database.rows("SELECT pg_advisory_xact_lock('journal'::regclass::int, 0)")
        with pytest.raises(BusyError):
            waiter.changes.append("session.gone", 1)
    with waiter.exclusive():
        waiter.changes.append("session.gone", 1)


def test_many_machines_write_at_once(open_store: Callable[..., Store], tmp_path: Path) -> None:
    """Each ends with what it would have alone."""
    home = tmp_path / "home"
    write_home(home, turns=40)
    stores = [open_store(key) for key in "abcd"]
    _together(*(partial(synced, store, home) for store in stores))
    expected = fresh(tmp_path, home)
    assert [difference(contents(store), expected) for store in stores] == [""] * 4
    numbers = [entry.seq for entry in stores[0].changes.since()]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 24


# --- text -------------------------------------------------------------------------------------------------------------


def test_nul_characters_are_replaced(open_store: Callable[..., Store]) -> None:
    """NUL and halves of characters; bytes stay as they are."""
    store = open_store()
    with store.transaction():
        id = store.sessions.create("claude", "a\0b\ud800c", "ref")
        store.texts.add_touched_files(id, [(0, "/a\0b"), (1, "/\udfff")])
        store.texts.add(id, [_text("one\0two \udc80three")])
        store.blocks.add(id, [(0, 0, b"\0\xff")])
    assert store.database.rows("SELECT name FROM session") == [("a\ufffdb\ufffdc",)]
    assert store.database.rows("SELECT id FROM session WHERE name = ?", "a\0b\ud800c") == [(id,)]
    assert sorted(row[0] for row in store.database.rows("SELECT text FROM name")) == ["/a\ufffdb", "/\ufffd"]
    assert store.database.rows("SELECT data FROM block") == [(b"\0\xff",)]
    assert len(store.search.matches(parse('"one two three"'), 9)) == 1


def test_names_may_be_long(open_store: Callable[..., Store]) -> None:
    """Longer than an ordinary index takes."""
    store = open_store()
    names = {str(number) + "".join(chr(0x4E00 + step * number % 20_000) for step in range(9000)) for number in (7, 11)}
    found = store.database.names.ids(names)
    store.database.names.reset()
    assert store.database.names.ids(names) == found
    with store.transaction():
        store.texts.add_touched_files(store.sessions.create("claude", max(names), max(names)), [(0, max(names))])


def test_placeholders_in_text_are_text(open_store: Callable[..., Store]) -> None:
    """Neither the driver's mark nor a percent sign in a statement means anything else."""
    store = open_store()
    assert store.database.rows("SELECT 'a%s%' || CAST(? AS TEXT)", "%?") == [("a%s%%?",)]
    assert store.database.rows("SET application_name = 'x'") == []


def test_a_page_of_a_list_reads_few_sessions(open_store: Callable[..., Store], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a sub-agent is below its session is looked up for those on the page, not for all."""
    store = open_store()
    store.database.rows(
        """INSERT INTO session (machine, agent, name, ref, kind, parent, ended, status, messages, sealed, counts, head,
                facts, around)
            SELECT ?, 'claude', 'session ' || n, '', CASE WHEN n % 5 = 0 THEN 'subagent' ELSE 'main' END,
                'session ' || n - 1, n, 'ended', 1, 1, '{}', '', '', '' FROM generate_series(1, 5000) AS n""",
        store.machine,
    )
    store.database.rows("ANALYZE session")
    rows = store.database.rows
    plans: list[Any] = []

    def explained(sql: str, *values: object) -> Sequence[Row]:
        plans.append(rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", *values)[0][0][0]["Plan"])
        return rows(sql, *values)

    monkeypatch.setattr(store.database, "rows", explained)
    assert len(store.sessions.select(SessionFilter(is_nested=False, is_empty=False), limit=20)) == 20
    assert _rows_read(plans[0]) < 500


def _rows_read(plan: dict[str, Any]) -> float:
    below: list[dict[str, Any]] = plan.get("Plans", [])
    scanned = plan["Actual Rows"] * plan["Actual Loops"] if "Scan" in plan["Node Type"] else 0
    return float(scanned + sum(map(_rows_read, below)))


# --- text index -------------------------------------------------------------------------------------------------------


def test_words_of_a_long_text_are_all_found(open_store: Callable[..., Store]) -> None:
    """More than fit into a vector: each word, words far from each other, and phrases across a split."""
    store = open_store()
    words = [f"w{number}" for number in range(60_000)]
    with store.transaction():
        id = store.sessions.create("claude", "long", "long")
        store.texts.add(id, [_text(" ".join(words)), _text("w1 other", 1)])
    assert store.database.rows("SELECT count(DISTINCT part) FROM piece") == [(1,)]

    def found(text: str) -> list[int]:
        return sorted(match.message for match in store.search.matches(parse(text), 9))

    assert found("w1") == [0, 1]
    assert found("w1 w59999") == [0]
    assert found("w1 -w59999") == [1]
    assert found("w59999 OR other") == [0, 1]
    assert found("w59999 (other OR -w3)") == []
    assert found("w5999*") == [0]
    for start in range(16_300, 16_400):
        assert found('"' + " ".join(words[start : start + 5]) + '"') == [0], start
    with store.transaction():
        store.database.rows("DELETE FROM part WHERE session = ?", id)
    assert found("w1") == []
    assert store.database.rows("SELECT count(*) FROM piece") == [(0,)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one",
        "same " * 2000,
        "same other " * 20_000,
        "x" * 3000 + " y",
        "ä" * 1_000_000,
        "🤖 robot",
        "it's a 'b' \\c",
    ],
    ids=lambda text: text[:8],
)
def test_vectors_hold_every_word_at_its_position(text: str) -> None:
    """Nothing that PostgreSQL would drop: no place beyond the last, no word too often."""
    words = [word.encode()[:2046].decode("utf-8", "ignore") for word in words_in(text)]
    start = 0
    for vector in vectors(text, 7):
        rest, era = vector[: -len("' 7'")].strip(), vector[-len("' 7'") :]
        assert era == "' 7'"
        entries = [entry.rpartition(":") for entry in rest.split(" ")] if rest else []
        places = {int(place): word.strip("'") for word, _, found in entries for place in found.split(",")}
        assert max((len(found.split(",")) for _, _, found in entries), default=0) <= 255
        assert max(places, default=0) <= 16_383
        assert sorted(places) == list(range(1, len(places) + 1))
        here = [places[place] for place in sorted(places)]
        assert here == words[start : start + len(here)]
        start += len(here) - 32
    assert start + 32 >= len(words)


# --- what may go wrong ------------------------------------------------------------------------------------------------


def _opened(address: str) -> str:
    """What opening says that cannot work."""
    with pytest.raises(UnspoolError) as caught:
        Store(PostgresDatabase(address, machine=MACHINE))
    text = str(caught.value)
    assert SECRET not in text
    assert SECRET_IN_ADDRESS not in text
    assert "\n" not in text
    return text


def test_an_unreachable_server(tmp_path: Path) -> None:
    """No socket, no host, or nothing that listens at the port."""
    assert "cannot be reached" in _opened(f"postgresql://me:{SECRET_IN_ADDRESS}@/db?host={tmp_path}")
    assert "cannot be reached" in _opened(f"postgresql://me:{SECRET_IN_ADDRESS}@127.0.0.1:1/db")


def test_an_invalid_address() -> None:
    """It is not shown: it may hold a password in the wrong place."""
    assert "is invalid" in _opened(f"postgresql://me:{SECRET}@host:port:/db?what=1")


def test_a_wrong_password_and_no_rights(postgres_address: str) -> None:
    """The message says which of them it is."""
    with psycopg.connect(postgres_address, autocommit=True) as database:
        database.execute(f"DROP ROLE IF EXISTS {GUARDED}")
        database.execute(f"CREATE ROLE {GUARDED} LOGIN PASSWORD 'right'")
        database.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    guarded = postgres_address.replace("postgres@", f"{GUARDED}:{SECRET_IN_ADDRESS}@")
    assert "rejected the login" in _opened(guarded)
    assert "rejected the login" in _opened(postgres_address.replace("postgres@", "nobody-known@"))
    assert "does not allow this" in _opened(guarded.replace(SECRET_IN_ADDRESS, "right"))
    assert "does not exist" in _opened(postgres_address.replace("/test-", "/missing-"))


@pytest.mark.parametrize("table", ["session", "customers"])
def test_tables_of_another_program(postgres_address: str, table: str) -> None:
    """Nothing is created beside them; a schema of its own is used if the address names one."""
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (id INT)")
        connection.execute("CREATE SCHEMA unspool")
        tables = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('public', 'unspool')"
        said = _opened(postgres_address)
        assert "has tables of another program in the schema public; create a database" in said
        assert connection.execute(tables).fetchall() == [("public", table)]
        separate = f"{postgres_address}{'&' if '?' in postgres_address else '?'}options=-csearch_path%3Dunspool"
        for _ in range(2):  # The second time, its own tables are there.
            Store(PostgresDatabase(separate, machine=MACHINE)).close()
        assert {name for schema, name in connection.execute(tables) if schema == "public"} == {table}


def test_a_server_that_is_too_old(postgres_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is made."""
    monkeypatch.setattr(postgres, "_OLDEST", 990_000)
    assert "unspool needs 99 or newer" in _opened(postgres_address)


def test_a_database_that_may_not_be_written(open_store: Callable[..., Store]) -> None:
    """A replica, for example."""
    store = open_store()
    store.database.rows("SET default_transaction_read_only = on")
    with pytest.raises(UnspoolError, match="cannot be written"):
        store.changes.append("session", None)


def test_a_connection_that_is_lost(open_store: Callable[..., Store], tmp_path: Path) -> None:
    """Nothing incomplete is left, and the error says so."""
    home = tmp_path / "home"
    claude_log().write(home)
    store, other = open_store(), open_store()
    ((process,),) = store.database.rows("SELECT pg_backend_pid()")

    def write() -> None:
        with store.transaction():
            store.sessions.create("claude", "name", "ref")
            other.database.rows("SELECT pg_terminate_backend(?, ?)", process, int(PATIENCE * 1000))
            store.sessions.create("claude", "another", "ref")

    with pytest.raises(UnspoolError, match=r"ended the connection|cannot be reached"):
        write()
    assert other.sessions.select() == []
    synced(other, home)


def test_a_missing_driver_names_the_install_command() -> None:
    """Everything else works without it."""
    code = """
import sys
sys.modules["psycopg"] = None
from unspool.core.errors import MissingExtraError
from unspool.store import open_store
try:
    open_store("postgresql:///nothing")
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert "pip install 'unspool[postgres]'" in done.stdout
