"""Copying files from one store to another: every version arrives, and none is copied twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.core.errors import UnspoolError
from unspool.ingest.push import push_archived
from unspool.ingest.rebuild import copy_readable
from unspool.store import transfer
from unspool.store.filters import SessionFilter
from unspool.store.store import Store
from unspool.store.transfer import copy_file, has_file

from .contents import new_store, synced
from .homes import append, claude_log, put


def _rewritten(store: Store, home: Path, *contents: bytes) -> Path:
    """A file that had several contents, one after the other, all of which are in a store."""
    path = claude_log().write(home)
    for content in contents:
        put(path, content)
        synced(store, home)
    return path


def _versions(store: Store, path: Path) -> list[bytes]:
    known = store.files.at(str(path))
    assert known is not None
    return [b"".join(store.files.chunks(row.id)) for row in store.files.versions(known.id)]


LONG, SHORT, LONGER = (claude_log(turns).data for turns in (3, 1, 4))
AS_LONG, OTHER = LONG.replace(b"please", b"kindly"), SHORT.replace(b"please", b"kindly")
HISTORIES = [
    [LONG, SHORT],
    [LONG, AS_LONG],
    [LONG, OTHER],
    [LONGER, SHORT, AS_LONG, OTHER],
]


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: "-".join(str(len(data)) for data in history))
def test_a_rebuilt_store_has_every_version(history: list[bytes], tmp_path: Path) -> None:
    """Also versions that are not longer than the previous one."""
    damaged, new = new_store(tmp_path / "damaged.db"), new_store(tmp_path / "new.db")
    path = _rewritten(damaged, tmp_path / "home", *history)
    expected = _versions(damaged, path)
    assert expected[-1] == history[-1]
    copy_readable(damaged, new)
    assert _versions(new, path) == expected
    damaged.close()
    new.close()


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: "-".join(str(len(data)) for data in history))
@pytest.mark.parametrize("seen", [1, 2])
def test_a_push_adds_the_versions_that_are_missing(
    history: list[bytes], seen: int, store: Store, tmp_path: Path
) -> None:
    """Whatever the other store has seen of the file before."""
    home, own = tmp_path / "home", new_store(tmp_path / "own.db")
    path = _rewritten(own, home, *history[:seen])
    synced(store, home)
    _rewritten(own, home, *history[seen:])
    path.unlink()
    synced(own, home)
    (row,) = own.sessions.select(SessionFilter(is_gone=True))
    before = _versions(store, path)
    push_archived(own, store)
    assert _versions(store, path) == [*before, *history[seen:]]
    (copied,) = store.sessions.select()
    assert copied.messages == row.messages
    assert push_archived(own, store) == 0
    own.close()


def test_a_store_that_has_seen_more_stays_as_it_is(store: Store, tmp_path: Path) -> None:
    """Only the other store read the file once more before it was deleted."""
    home, own = tmp_path / "home", new_store(tmp_path / "own.db")
    path = _rewritten(own, home, LONG)
    append(path, LONGER[len(LONG) :])
    synced(store, home)
    put(path, SHORT)
    synced(store, home)
    (file,) = own.files.all().values()
    assert has_file(own, store, file.id)
    copy_file(own, store, file.id)
    assert _versions(store, path) == [LONGER, SHORT]
    own.close()


@pytest.mark.parametrize("later", [OTHER, SHORT], ids=["other", "beginning"])
def test_a_session_that_became_shorter_is_not_replaced(later: bytes, store: Store, tmp_path: Path) -> None:
    """The other store has all versions, and a later one with fewer messages."""
    home, own = tmp_path / "home", new_store(tmp_path / "own.db")
    path = _rewritten(own, home, LONGER)
    synced(store, home)
    put(path, later)
    synced(store, home)
    path.unlink()
    synced(own, home)
    (before,) = store.sessions.select()
    (row,) = own.sessions.select(SessionFilter(is_gone=True))
    assert before.messages < row.messages
    assert push_archived(own, store) == 0
    assert store.sessions.select() == [before]
    assert _versions(store, path) == [LONGER, later]
    own.close()


def test_damaged_bytes_are_not_a_new_version(store: Store, tmp_path: Path) -> None:
    """They say nothing about the file, which the other store has."""
    home, own = tmp_path / "home", new_store(tmp_path / "own.db")
    path = _rewritten(own, home, LONG)
    synced(store, home)
    (file,) = own.files.all().values()
    own.files.put_chunk(file.id, 0, len(LONG), b"damaged")
    own.files.put(file._replace(changed=file.changed + 1))
    assert has_file(own, store, file.id)
    copy_file(own, store, file.id)
    assert _versions(store, path) == [LONG]
    own.close()


def test_a_version_is_copied_although_an_earlier_one_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a page of the database is damaged."""
    damaged, new = new_store(tmp_path / "damaged.db"), new_store(tmp_path / "new.db")
    path = _rewritten(damaged, tmp_path / "home", LONG, OTHER)
    known = damaged.files.at(str(path))
    assert known is not None
    read = damaged.files.packed_chunks

    def fail(file: int, start: int = 0) -> object:
        if file != known.id:
            raise UnspoolError("malformed")
        return read(file, start)

    monkeypatch.setattr(damaged.files, "packed_chunks", fail)
    copy_readable(damaged, new)
    assert _versions(new, path) == [OTHER]
    damaged.close()
    new.close()


def test_a_file_that_was_forgotten_does_not_end_a_rebuild(tmp_path: Path) -> None:
    """Its number is unused."""
    damaged, new = new_store(tmp_path / "damaged.db"), new_store(tmp_path / "new.db")
    path = _rewritten(damaged, tmp_path / "home", LONG, OTHER)
    known = damaged.files.at(str(path))
    assert known is not None
    first, _ = damaged.files.versions(known.id)
    damaged.files.remove(first.id)
    copy_readable(damaged, new)
    assert _versions(new, path) == [OTHER]
    damaged.close()
    new.close()


LISTS = ("SELECT id FROM file ORDER", "SELECT id FROM session ORDER")


@pytest.mark.parametrize("unreadable", [(), LISTS, (*LISTS, "max(id)")], ids=["nothing", "list", "highest"])
def test_a_rebuild_finds_all_files_and_sessions(
    unreadable: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However high their numbers are, even if the list of them cannot be read."""
    monkeypatch.setattr(transfer, "_MANY", 10)
    home = tmp_path / "home"
    damaged, new = new_store(tmp_path / "damaged.db"), new_store(tmp_path / "new.db")
    path = claude_log().write(home)
    synced(damaged, home)
    for table, column in (("file", "id"), ("chunk", "file"), ("session_file", "file")):
        damaged.database.rows(f"UPDATE {table} SET {column} = 1234")
    for table, column in (("session", "id"), ("block", "session"), ("session_file", "session")):
        damaged.database.rows(f"UPDATE {table} SET {column} = 5678")
    read = damaged.database.rows

    def fail(sql: str, *values: object) -> object:
        if any(part in sql for part in unreadable):
            raise UnspoolError("malformed")
        return read(sql, *values)

    monkeypatch.setattr(damaged.database, "rows", fail)
    assert copy_readable(damaged, new) == 1
    assert _versions(new, path) == [LONG]
    damaged.close()
    new.close()
