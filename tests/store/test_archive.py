"""Archived files, and how they are found."""

from __future__ import annotations

from pathlib import Path

from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.store import Store

from .contents import new_store

FOLDER = "/home/dev/.claude/projects/-demo"
FILE = "machine, agent, path, device, inode, size, changed, kept, mark"


def _add(store: Store, *paths: str) -> list[int]:
    for path in paths:
        values = (store.machine, "claude", path, 0, 0, 0, 0, 0, b"")
        store.database.rows(f"INSERT INTO file ({FILE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *values)
    return [store.files.all()[path].id for path in paths]


def test_only_files_in_the_folder_of_a_session_are_beside_it(store: Store) -> None:
    """Not those of folders whose names begin in the same way, nor those of other sessions."""
    with store.transaction():
        session = store.sessions.create("claude", "one", "one")
        other = store.sessions.create("claude", "agent", "agent")
        log, agent = _add(store, f"{FOLDER}/one.jsonl", f"{FOLDER}/one/subagents/agent.jsonl")
        store.files.set_for_session(session, [log])
        store.files.set_for_session(other, [agent])
        _add(store, f"{FOLDER}/one/b.txt", f"{FOLDER}/one/Ä.txt", f"{FOLDER}\\\\one\\\\x.txt", f"{FOLDER}/one0/c.txt")
        _add(store, f"{FOLDER}/one-more/d.txt", f"{FOLDER}/one", f"{FOLDER}/two/e.txt", f"{FOLDER}/one\\f.txt")
    found = [file.path.removeprefix(FOLDER) for file in store.files.in_session_folder(session)]
    assert found == ["/one/b.txt", "/one/Ä.txt", "/one\\f.txt"]


def test_files_beside_a_session_are_found_by_the_index(tmp_path: Path) -> None:
    """However many files there are, only those in the folder are looked at."""
    store = new_store(tmp_path / "store.db")
    assert isinstance(store.database, SqliteDatabase)
    with store.transaction():
        session = store.sessions.create("claude", "one", "one")
        store.files.set_for_session(session, _add(store, f"{FOLDER}/one.jsonl"))
    statements: list[str] = []
    store.database._connection.set_trace_callback(statements.append)
    store.files.in_session_folder(session)
    store.database._connection.set_trace_callback(None)
    plans = [store.database.rows(f"EXPLAIN QUERY PLAN {sql}") for sql in statements if "replaced_at" in sql]
    assert len(plans) == 2
    for plan in plans:
        steps = [str(row[3]) for row in plan]
        assert "SEARCH file USING INDEX file_path (machine=? AND path>? AND path<?)" in steps
        assert not any("SCAN" in step or "TEMP B-TREE" in step for step in steps)
    store.close()


def test_stamps_are_those_of_files_that_are_there(store: Store) -> None:
    """Not of deleted files, of replaced versions, or of files that are not archived completely."""
    with store.transaction():
        ids = _add(store, *(f"{FOLDER}/{name}.jsonl" for name in ("there", "gone", "replaced", "both", "cut")))
        _, gone, replaced, both, cut = ids
        store.database.rows("UPDATE file SET gone_at = 1 WHERE id IN (?, ?)", gone, both)
        store.database.rows("UPDATE file SET replaced_at = 1 WHERE id IN (?, ?)", replaced, both)
        store.database.rows("UPDATE file SET size = 9 WHERE id = ?", cut)
    assert store.files.stamps() == {(f"{FOLDER}/there.jsonl", 0, 0, 0, 0, 0)}


def test_stamps_are_read_in_the_order_of_the_table(tmp_path: Path) -> None:
    """A list needs all of them: looking up row by row what an index has would cost more than reading the table."""
    store = new_store(tmp_path / "store.db")
    assert isinstance(store.database, SqliteDatabase)
    statements: list[str] = []
    store.database._connection.set_trace_callback(statements.append)
    store.files.stamps()
    store.database._connection.set_trace_callback(None)
    (sql,) = statements
    assert [row[3] for row in store.database.rows(f"EXPLAIN QUERY PLAN {sql}")] == ["SCAN file"]
    store.close()
