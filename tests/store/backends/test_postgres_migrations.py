"""A store in PostgreSQL of an earlier version is upgraded when it is opened, completely or not at all.

`fixtures/postgres-2.sql` is a dump of a store of version 2, from before versions of files were kept. It was made from a
home at `/home/dev/home`, from which one session is gone, and in which one was cut short.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from unspool.core.errors import UnspoolError
from unspool.ingest.history import History
from unspool.ingest.restore import restore_session
from unspool.ingest.verify import Verifier
from unspool.store.backends import postgres
from unspool.store.backends.postgres import PostgresDatabase
from unspool.store.database import Row
from unspool.store.filters import SessionFilter
from unspool.store.migrations import Migrations
from unspool.store.store import Store

from .. import server
from ..contents import new_store, synced
from ..homes import log_of
from ..statement_faults import IS_WHOLE

MACHINE = ("laptop", "laptop")
FIXTURE = Path(__file__).parents[1] / "fixtures" / "postgres-2.sql"
_STATEMENT = re.compile(r"(?:\$\$.*?\$\$|--[^\n]*|'[^']*'|[^;$'-]|[$-])+;", re.DOTALL)
END_CONNECTION = "SELECT pg_terminate_backend(pg_backend_pid());"


@pytest.fixture(scope="module")
def old(postgres_server: str) -> Iterator[str]:
    """The name of a database with the old store."""
    name = f"old-{uuid.uuid4().hex}"
    with psycopg.connect(server.new_database(postgres_server, name), autocommit=True) as database:
        database.execute(FIXTURE.read_text())
    yield name
    server.drop_database(postgres_server, name)


@pytest.fixture
def address(postgres_server: str, old: str) -> Iterator[str]:
    """A copy of that database."""
    name = f"copy-{uuid.uuid4().hex}"
    yield server.new_database(postgres_server, name, template=old)
    server.drop_database(postgres_server, name)


def tables(address: str) -> dict[str, list[Row]]:
    """Everything in a store, by table, after it was opened."""
    database = PostgresDatabase(address, machine=MACHINE)
    names = database.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    columns = """SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
        WHERE table_schema = 'public' ORDER BY 1, 2"""
    found = {name: sorted(database.rows(f'SELECT * FROM "{name}"'), key=repr) for (name,) in names}
    rules = "SELECT tablename, policyname, cmd, qual, with_check FROM pg_policies ORDER BY 1, 2"
    indexes = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
    found |= {sql: database.rows(sql) for sql in (columns, rules, indexes)}
    database.close()
    return found


def test_nothing_is_lost(address: str, tmp_path: Path) -> None:
    """All sessions and versions are there, can be restored, and are what today's readers make of the files."""
    store = Store(PostgresDatabase(address, machine=MACHINE))
    assert store.database.rows("SELECT version FROM store_version") == [(Migrations("postgres").newest,)]
    rows = store.sessions.select()
    assert len(rows) == 8
    assert [row.agent for row in store.sessions.select(SessionFilter(is_gone=True))] == ["claude"]
    for row in rows:
        restore_session(store, row, tmp_path / "home")
    new = new_store(tmp_path / "new.db")
    synced(new, tmp_path / "home")
    for row in rows:
        (found,) = new.sessions.select(SessionFilter(agent=row.agent, name=row.name))
        assert new.messages.read(found.id) == store.messages.read(row.id), row.name
    new.close()
    (short,) = (row for row in rows if row.messages == 2)
    assert [version.change for version in History(store, short).versions] == ["created", "truncated"]
    ((restored, _, _),) = restore_session(store, short, tmp_path / "short", 1)
    assert restored.read_bytes() == log_of("codex", 3, "short").data
    assert Verifier(store).run().faults == []
    store.close()


def test_an_upgrade_that_is_interrupted_is_done_the_next_time(
    postgres_server: str, old: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends before a statement; with `make faults` before each of them."""
    statements = [
        found[0] for _, script in Migrations("postgres").after(2, "") for found in _STATEMENT.finditer(script)
    ]
    newest = Migrations("postgres").newest
    expected = tables(address)
    assert len(statements) > 30
    for number in range(0, len(statements) + 1, 1 if IS_WHOLE else 19):
        name = f"interrupted-{uuid.uuid4().hex}"
        copy = server.new_database(postgres_server, name, template=old)
        steps = [(newest, sql) for sql in (*statements[:number], END_CONNECTION, *statements[number:])]
        with monkeypatch.context() as patched:
            patched.setattr(postgres._MIGRATIONS, "after", lambda *_, steps=steps: steps)
            with pytest.raises(UnspoolError, match="ended the connection"):
                PostgresDatabase(copy, machine=MACHINE)
        assert tables(copy) == expected, f"before statement {number}"
        server.drop_database(postgres_server, name)


def test_scripts_are_split_into_all_their_statements() -> None:
    """What the test above interrupts is the whole of them."""
    for _, script in Migrations("postgres").after(0, ""):
        left = _STATEMENT.sub("", script)
        assert re.sub(r"--[^\n]*|\s", "", left) == ""
