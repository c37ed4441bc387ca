"""Copying files from one store to another: every version arrives, and none is copied twice."""

from __future__ import annotations

from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unspool.core.errors import UnspoolError
from unspool.ingest.history import History
from unspool.ingest.push import push_archived
from unspool.ingest.rebuild import copy_readable
from unspool.store import transfer
from unspool.store.compression import pack
from unspool.store.filters import SessionFilter
from unspool.store.rows import FileRow
from unspool.store.store import Store
from unspool.store.transfer import copy_file, has_file

from .contents import contents, difference, fresh, new_store, synced
from .homes import append, claude_log, gemini_log, put, write_home


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
    """Earlier and later ones, whatever the other store has seen of the file before."""
    home, own = tmp_path / "home", new_store(tmp_path / "own.db")
    path = _rewritten(own, home, *history[:seen])
    synced(store, home)
    _rewritten(own, home, *history[seen:])
    path.unlink()
    synced(own, home)
    (row,) = own.sessions.select(SessionFilter(is_gone=True))
    push_archived(own, store)
    assert _versions(store, path) == history
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


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        ([OTHER], LONG, [OTHER, LONG]),
        ([AS_LONG, LONG], LONG, [AS_LONG, LONG]),
        ([LONGER], OTHER, [LONGER, OTHER]),
        ([SHORT, OTHER], LONG, [OTHER, LONG]),
    ],
    ids=["shorter", "as long", "longer", "beginning"],
)
def test_an_earlier_version_is_inserted(
    earlier: list[bytes], later: bytes, expected: list[bytes], store: Store, tmp_path: Path
) -> None:
    """The version that is the newest one in the other store stays so, and its session stays as it is."""
    home, own = tmp_path / "home", new_store(tmp_path / "own.db")
    path = _rewritten(own, home, *earlier)
    put(path, later)
    synced(store, home)
    path.unlink()
    synced(own, home)
    before = store.sessions.select()
    assert push_archived(own, store) == 1
    assert _versions(store, path) == expected
    assert store.sessions.select() == before
    (session,) = before
    versions = History(store, session).versions
    assert [version.size for version in versions] == [len(data) for data in expected]
    assert versions[-1].change == "rewritten"
    assert push_archived(own, store) == 0
    own.close()


def test_a_file_that_another_session_used_before(store: Store, tmp_path: Path) -> None:
    """Each session is copied with the version that it was read from."""
    home, own, new = tmp_path / "home", new_store(tmp_path / "own.db"), new_store(tmp_path / "new.db")
    path = gemini_log(3, "one").write(home)
    synced(own, home)
    put(path, gemini_log(1, "two").data)
    synced(own, home)
    path.unlink()
    synced(own, home)
    expected = _bytes_of_sessions(own)
    assert len(expected) == 2
    assert push_archived(own, store) == 2
    assert push_archived(own, store) == 0
    copy_readable(own, new)
    for copy in (store, new):
        assert _bytes_of_sessions(copy) == expected
        assert len(copy.files.all_versions(str(path))) == 2
    own.close()
    new.close()


def _bytes_of_sessions(store: Store) -> dict[str, bytes]:
    files = {session.name: store.files.of_session(session.id) for session in store.sessions.select()}
    return {name: b"".join(store.files.chunks(file.id)) for name, (file,) in files.items()}


def test_an_earlier_version_with_damaged_bytes(store: Store, tmp_path: Path) -> None:
    """It does not keep other versions from being copied, and is copied once."""
    home, own = tmp_path / "home", new_store(tmp_path / "own.db")
    path = _rewritten(own, home, LONGER, AS_LONG, OTHER)
    put(path, LONG)
    synced(store, home)
    path.unlink()
    synced(own, home)
    first, *_ = own.files.all_versions(str(path))
    own.database.rows("UPDATE chunk SET data = ? WHERE file = ?", b"damaged", first.id)
    assert push_archived(own, store) == 1
    assert push_archived(own, store) == 0
    rows = store.files.all_versions(str(path))
    assert [row.archived_size for row in rows] == [len(data) for data in (LONGER, AS_LONG, OTHER, LONG)]
    assert [data for row in rows for _, data in store.files.intact_chunks(row.id)] == [None, AS_LONG, OTHER, LONG]
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


State = tuple[int, str]
"""The time at which a file was changed, and its bytes: one part for each letter."""
_PARTS = {letter: Random(letter).randbytes(100) for letter in "abc"}
_PIECE = 150


def _see(store: Store, path: str, states: list[State]) -> None:
    """Archive some states of a file, as a sync does."""
    files = store.files
    for changed, letters in states:
        data = b"".join(_PARTS[letter] for letter in letters)
        row = FileRow(
            0, "claude", path, 1, 1, len(data), changed, len(data), letters.encode(), archived_at=float(changed)
        )
        known = files.at(path)
        if known is None:
            id = files.put(row)
        elif data.startswith(b"".join(files.chunks(known.id))):
            id = files.put(row._replace(id=known.id, archived_at=known.archived_at, origin=known.origin))
        else:
            id = files.replace(known.id, changed, row._replace(origin="rewritten"))
        for start in range(0, len(data), _PIECE):
            files.put_chunk(id, start, len(data[start : start + _PIECE]), pack(data[start : start + _PIECE]))
        if known is not None and id != known.id:
            files.shrink(known.id, id)


def _seen(store: Store, path: str) -> list[State]:
    """The versions of a file."""
    letters = {part: letter for letter, part in _PARTS.items()}
    found = []
    for row in store.files.all_versions(path):
        data = b"".join(store.files.chunks(row.id))
        assert len(data) == row.archived_size
        parts = (data[start : start + 100] for start in range(0, len(data), 100))
        found.append((row.changed, "".join(letters[part] for part in parts)))
    return found


def _push(source: Store, target: Store, path: str) -> list[State]:
    """Copy a file, and return its versions in the other store."""
    file = source.files.at(path)
    assert file is not None
    before, was_complete = _seen(target, path), has_file(source, target, file.id)
    with target.transaction():
        new = copy_file(source, target, file.id)
    assert has_file(source, target, file.id)
    after = _seen(target, path)
    # If the file was only touched, the time may change.
    assert was_complete == (_contents(after) == _contents(before))
    versions = target.files.all_versions(path)
    assert target.files.versions(versions[-1].id) == versions
    assert new in [row.id for row in versions]
    assert all(row.origin == "rewritten" for row in versions[1:])
    return after


def _contents(states: list[State]) -> list[str]:
    return [letters for _, letters in states]


def _assert_has(after: list[State], before: list[State]) -> None:
    """Every version is there, as a whole or as the beginning of a later one."""
    for changed, letters in before:
        assert any(later.startswith(letters) and (at >= changed or later == letters) for at, later in after)


_CONTENTS = st.text("abc", min_size=1, max_size=4)
_SEEN = st.sets(st.integers(0, 7), min_size=1)


@given(contents=st.lists(_CONTENTS, min_size=8, max_size=8), seen=st.tuples(_SEEN, _SEEN, _SEEN))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_stores_that_saw_different_states_of_a_file(
    contents: list[str], seen: tuple[set[int], ...], store: Store, tmp_path: Path
) -> None:
    """A push adds all versions in the order of time, and none twice."""
    path = uuid4().hex
    observed = [[(time, contents[time]) for time in sorted(times)] for times in seen]
    last = max(state for states in observed for state in states)
    own, other = (new_store(tmp_path / f"{name}.db") for name in ("own", "other"))
    for each, states in zip((store, own, other), observed, strict=True):
        _see(each, path, states)
    for _ in range(2):
        for source in (own, other):
            before = _seen(store, path)
            after = _push(source, store, path)
            _assert_has(after, _seen(source, path))
            _assert_has(after, before)
            assert after == sorted(set(after))
            assert set(after) <= {*before, *_seen(source, path)}
            assert after[-1][1] == max(before[-1], _seen(source, path)[-1])[1]
            assert _contents(_push(source, store, path)) == _contents(after)
    assert _seen(store, path)[-1][1] == last[1]
    own.close()
    other.close()


@given(
    own_states=st.lists(st.tuples(st.integers(0, 4), _CONTENTS), min_size=1, max_size=6),
    states=st.lists(st.tuples(st.integers(0, 4), _CONTENTS), max_size=6),
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_versions_keep_the_order_of_their_store(
    own_states: list[State], states: list[State], store: Store, tmp_path: Path
) -> None:
    """Also if the clock was set back, or a file was replaced by an older one."""
    path = uuid4().hex
    own = new_store(tmp_path / "own.db")
    _see(own, path, own_states)
    _see(store, path, states)
    before = _seen(store, path)
    after = _push(own, store, path)
    _assert_has(after, before)
    _assert_has(after, _seen(own, path))
    if not states:
        assert after == _seen(own, path)
    assert _contents(_push(own, store, path)) == _contents(after)
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


def test_a_session_that_cannot_be_read_is_imported_again(tmp_path: Path) -> None:
    """Its files have not changed since they were archived."""
    home = tmp_path / "home"
    write_home(home)
    damaged, new = (new_store(tmp_path / f"{name}.db") for name in ("damaged", "new"))
    synced(damaged, home)
    damaged.database.rows("DELETE FROM session WHERE id IN (SELECT min(id) FROM session GROUP BY agent)")
    assert copy_readable(damaged, new) == 3
    assert synced(new, home).new == 3
    assert difference(contents(new), fresh(tmp_path, home)) == ""
    damaged.close()
    new.close()
