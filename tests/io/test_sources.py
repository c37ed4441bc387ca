"""Sources of logs: files and databases."""

from __future__ import annotations

import os
import pickle
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from unspool.io.sources import JsonDocument, LineFile, LogSource, SqliteSource, Stamp, file_source, query

QUERIES = ("SELECT id AS name FROM session WHERE id = :session", "SELECT n, text FROM row WHERE session = :session")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with two sessions."""
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE session (id TEXT)")
        connection.execute("CREATE TABLE row (session TEXT, n INTEGER, text TEXT)")
        connection.executemany("INSERT INTO session VALUES (?)", [("one",), ("a/b",)])
        connection.executemany("INSERT INTO row VALUES ('one', ?, ?)", [(1, "first"), (2, "zwei\u2028drei")])
    return path


def read(source: LogSource) -> bytes:
    with source.open() as stream:
        return stream.read()


@pytest.mark.parametrize(
    ("name", "kind", "appendable"),
    [("a.jsonl", LineFile, True), ("a.jsonl.zst", LineFile, False), ("a.json", JsonDocument, False)],
)
def test_files_by_their_suffix(name: str, kind: type, appendable: bool) -> None:
    """Only plain lines can be followed while they are written."""
    source = file_source(Path(name))
    assert type(source) is kind
    assert source.is_appendable == appendable


def test_a_file_is_stamped_by_the_file_system(tmp_path: Path) -> None:
    """The stamp changes with the file, and there is none when it is gone."""
    source = LineFile(tmp_path / "log.jsonl")
    assert (source.stamp(), source.modified()) == (None, 0)
    source.path.write_bytes(b"{}\n")
    before = source.stamp()
    assert before is not None
    assert (before.size, before.changed) == (3, source.modified())
    source.path.write_bytes(b"{}\n{}\n")
    assert source.stamp(before) != before
    assert source.position(2, 1003) == "line 2, byte 1,003"
    with pytest.raises(OSError, match="nowhere"):
        LineFile(Path("/nowhere")).open()


@pytest.mark.parametrize(("number", "stored"), [(7, 7), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1)])
def test_stamps_fit_into_a_database(number: int, stored: int) -> None:
    """Inode numbers and devices may have 64 bits, and times may be anywhere."""
    facts = os.stat_result(
        (0, number, number, 1, 0, 0, 12, 0, 0, 0),
        {"st_mtime_ns": 300_000_000_000 * 10**9, "st_ctime_ns": -300_000_000_000 * 10**9},
    )
    assert Stamp.of(facts) == Stamp(stored, stored, 12, 2**63 - 1, -(2**63))


def test_rows_are_lines(database: Path) -> None:
    """One object per row; only LF ends a line."""
    source = SqliteSource(database, "one", QUERIES, 7)
    data = '{"name":"one"}\n{"n":1,"text":"first"}\n{"n":2,"text":"zwei\u2028drei"}\n'.encode()
    assert read(source) == data
    assert source.stamp() == Stamp(0, 0, len(data), 7)
    assert source.position(2, 15) == "row 2"
    assert not source.is_appendable


def test_a_session_is_named_by_a_path_below_the_database(database: Path) -> None:
    """Any id leads back to the session."""
    for session in ("one", "a/b", "..", "ä b%"):
        source = SqliteSource(database, session, QUERIES, 1)
        assert source.path.parent == database
        assert SqliteSource.session_at(source.path) == (database, session)
        assert pickle.loads(pickle.dumps(source)).path == source.path


def test_rows_are_measured_only_after_a_change(database: Path) -> None:
    """A database has many sessions, and few of them change."""
    known = Stamp(0, 0, 1, 7)
    assert SqliteSource(database, "one", QUERIES, 7).stamp(known) == known
    measured = SqliteSource(database, "one", QUERIES, 8).stamp(known)
    assert measured is not None
    assert measured.size > 1


def test_missing_is_not_unreadable(database: Path, tmp_path: Path) -> None:
    """A session without rows, or without a database, is gone; one that cannot be read now stays as it was."""
    known = Stamp(0, 0, 1, 7)
    assert SqliteSource(database, "nobody", QUERIES, 8).stamp(known) is None
    assert SqliteSource(tmp_path / "no.db", "one", QUERIES, 8).stamp(known) is None
    database.write_bytes(b"SQLite format 3\0" + b"\0" * 1000)
    broken = SqliteSource(database, "one", QUERIES, 8)
    assert broken.stamp(known) == known
    assert broken.stamp() == Stamp(0, 0, 0, 8)
    with pytest.raises(OSError, match=r"some\.db"):
        broken.open()


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_no_files_are_left_beside_a_database(database: Path, mode: str) -> None:
    """Whether its agent runs or not; the last rows are read."""
    with closing(sqlite3.connect(database)) as agent:
        agent.execute(f"PRAGMA journal_mode = {mode}")
        with agent:
            agent.execute("INSERT INTO row VALUES ('one', 3, 'third')")
        before = sorted(path.name for path in database.parent.iterdir())
        assert b"third" in read(SqliteSource(database, "one", QUERIES, 1))
        assert sorted(path.name for path in database.parent.iterdir()) == before
    assert query(database, "SELECT count(*) AS count FROM row") == [{"count": 3}]
    assert [path.name for path in database.parent.iterdir()] == ["some.db"]


@pytest.fixture
def closed(database: Path) -> Path:
    """A database in write-ahead mode that no program has open."""
    with closing(sqlite3.connect(database)) as agent:
        agent.execute("PRAGMA journal_mode = WAL")
    os.utime(database, ns=(0, 0))
    return database


def before_each_read(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Act between the moment when a program connects to a database and the moment when it reads its rows."""
    connect = sqlite3.connect

    def slow(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        if options.get("uri"):
            connection.execute("SELECT count(*) FROM row").fetchall()
            act()
        return connection

    monkeypatch.setattr(sqlite3, "connect", slow)


COUNT = "SELECT count(*) AS count FROM row"


def test_an_agent_may_open_a_database_while_it_is_read(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read without locks is read again with them."""
    with closing(sqlite3.connect(closed)) as agent:

        def write() -> None:
            with agent:
                agent.execute("INSERT INTO row VALUES ('one', 3, 'third')")

        before_each_read(monkeypatch, write)
        # Once for the rows that were read without locks, once for those in a snapshot with them.
        assert query(closed, COUNT) == [{"count": 4}]


def test_an_agent_may_open_and_close_a_database_while_it_is_read(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = iter([(3, "third")])

    def write() -> None:
        for row in rows:
            with closing(sqlite3.connect(closed)) as agent, agent:
                agent.execute("INSERT INTO row VALUES ('one', ?, ?)", row)

    before_each_read(monkeypatch, write)
    assert query(closed, COUNT) == [{"count": 3}]
    assert [path.name for path in closed.parent.iterdir()] == ["some.db"]


def test_a_database_that_never_rests_is_unreadable(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is an error, not a result."""
    times = iter(range(1, 1000))
    before_each_read(monkeypatch, lambda: os.utime(closed, ns=(0, next(times))))
    with pytest.raises(OSError, match="changes while it is read"):
        query(closed, COUNT)
    assert SqliteSource(closed, "one", QUERIES, 8).stamp(Stamp(0, 0, 1, 7)) == Stamp(0, 0, 1, 7)


def test_invalid_text_is_read(database: Path) -> None:
    """Databases of agents contain arbitrary output."""
    with closing(sqlite3.connect(database)) as agent, agent:
        agent.execute("INSERT INTO row VALUES ('one', 3, CAST(x'ff41' AS TEXT))")
    assert "\ufffdA".encode() in read(SqliteSource(database, "one", QUERIES, 1))
