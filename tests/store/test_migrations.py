"""A store of an earlier version is upgraded when it is opened, completely or not at all."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from unspool.ingest.history import History
from unspool.ingest.restore import restore_session
from unspool.store import Store
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.compression import pack
from unspool.store.database import Row

FIXTURE = Path(__file__).parent / "fixtures" / "store-0.1.db"
MACHINE = ("laptop", "laptop")


class KilledError(Exception):
    """The program ends here."""


def tables(path: Path) -> dict[str, list[Row]]:
    """Everything in a store, by table."""
    database = SqliteDatabase(path, machine=MACHINE)
    try:
        schema = database.rows("SELECT name, sql FROM sqlite_master ORDER BY name")
        names = [row[0] for row in schema if (row[1] or "").startswith("CREATE TABLE")]
        return {"schema": schema} | {name: database.rows(f"SELECT * FROM '{name}'") for name in names}
    finally:
        database.close()


def test_an_upgrade_that_is_interrupted_is_done_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every statement: nothing is lost, and nothing is done twice."""
    whole = tmp_path / "whole.db"
    shutil.copy(FIXTURE, whole)
    expected = tables(whole)
    statements = 0
    while _is_killed_after(statements, tmp_path / f"{statements}.db", monkeypatch):
        assert tables(tmp_path / f"{statements}.db") == expected, f"after {statements} statements"
        statements += 1
    assert statements > 20


def _is_killed_after(statements: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Open a copy of the old store with a program that ends after some statements; False if it needs fewer."""
    shutil.copy(FIXTURE, path)
    run, left = SqliteDatabase.rows, statements

    def rows(self: SqliteDatabase, sql: str, *values: object) -> list[Row]:
        nonlocal left
        left -= 1
        if left < 0:
            raise KilledError
        return run(self, sql, *values)

    with monkeypatch.context() as patched:
        patched.setattr(SqliteDatabase, "rows", rows)
        try:
            SqliteDatabase(path, machine=MACHINE).close()
        except KilledError:
            return True
    return False


def test_versions_of_earlier_stores_are_kept(tmp_path: Path) -> None:
    """Earlier versions kept the bytes of a file only when it had become shorter."""
    path = tmp_path / "old.db"
    shutil.copy(FIXTURE, path)
    with closing(sqlite3.connect(path)) as database, database:
        sql = "INSERT INTO file SELECT -file.id, machine, agent, path, device, inode, 5, changed, 5, mark, NULL, 7.0"
        database.execute(f"{sql} FROM file WHERE id IN (SELECT file FROM session_file)")
        sql = "INSERT INTO chunk SELECT id, 0, 5, ? FROM file WHERE id < 0"
        database.execute(sql, [pack(b"older")])
    store = Store(SqliteDatabase(path, machine=MACHINE))
    for session in store.sessions.select():
        before, now = History(store, session).versions
        assert (before.change, before.at, before.size) == ("created", None, 5)
        assert (now.change, now.at) == ("truncated", datetime.fromtimestamp(7, UTC))
        ((restored, _, _),) = restore_session(store, session, tmp_path / session.name, 1)
        assert restored.read_bytes() == b"older"
    store.close()
