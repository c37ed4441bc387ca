"""Positions, pages and raw records of a session agree with its record."""

from __future__ import annotations

from pathlib import Path

from unspool.store import Store
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.resume import resume_command
from unspool.web.session_query import PAGE_SIZE, SessionQuery

from ..store.contents import new_store, synced
from ..store.homes import claude_log
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


def test_only_sessions_whose_files_are_here_have_a_command_that_resumes_them(tmp_path: Path) -> None:
    """Neither those of another machine, nor those whose files were deleted, can be resumed."""
    claude_log().write(tmp_path / "home")
    store = new_store(tmp_path / "store.db")
    synced(store, tmp_path / "home")

    def command(store: Store) -> str | None:
        (row,) = store.sessions.select()
        return SessionQuery(store, row).resume_command()

    (row,) = store.sessions.select()
    assert command(store) == f"cd /home/dev/demo && claude --resume {row.name}"
    elsewhere = Store(SqliteDatabase(tmp_path / "store.db", machine=("another key", "another machine")))
    assert command(elsewhere) is None
    elsewhere.close()
    store.sessions.set_gone(row.id, 1.0)
    assert command(store) is None
    store.close()


def test_a_project_without_a_known_folder_has_none_to_change_to(tmp_path: Path) -> None:
    """The store then has its name, which is no path."""
    claude_log().write(tmp_path / "home")
    store = new_store(tmp_path / "store.db")
    synced(store, tmp_path / "home")
    store.database.rows("UPDATE session SET project = 'demo'")
    (row,) = store.sessions.select()
    assert resume_command(store, row) == f"claude --resume {row.name}"
    store.close()
