"""Blocks and chunks that are packed against archived bytes: nothing else changes, and whatever needs them works."""

from __future__ import annotations

import os
import random
import shutil
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from unspool.core.errors import DamagedError
from unspool.ingest.history import History
from unspool.ingest.push import push_archived
from unspool.ingest.restore import restore_session
from unspool.ingest.session import remove_session
from unspool.ingest.store_repair import StoreRepair
from unspool.ingest.verify import Verifier
from unspool.search.query import Filters, parse
from unspool.store import Store, compression
from unspool.store.backends.postgres import PostgresDatabase
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.compression import pack
from unspool.store.maintenance import Maintenance
from unspool.store.regex_search import search_regex
from unspool.store.rows import FileRow
from unspool.testing import ClaudeLog

from ..agents.test_claude_inline_agents import session_with_agent
from . import server
from .contents import MACHINE, contents, difference, fresh, new_store, synced
from .homes import AGENTS, append, log_of, put, rest_of, write_home

TURNS = 40
"""Several blocks of messages."""
MEGABYTE = 1 << 20


def compact(store: Store) -> None:
    Maintenance(store, everything=True).run()


def _sum(store: Store, table: str, what: str) -> int:
    return int(store.database.rows(f"SELECT coalesce(sum({what}), 0) FROM {table}")[0][0])


def _with_base(store: Store, table: str) -> int:
    return int(store.database.rows(f"SELECT count(*) FROM {table} WHERE base IS NOT NULL")[0][0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the home of each test is: stores know the paths of files, so that only there a copy of one fits."""
    made = tmp_path_factory.mktemp("repacking")
    write_home(made / "original", TURNS)
    return made


@pytest.fixture
def home(folder: Path) -> Path:
    shutil.rmtree(folder / "home", ignore_errors=True)
    return _copied_home(folder)


def _copied_home(folder: Path) -> Path:
    return Path(shutil.copytree(folder / "original", folder / "home", dirs_exist_ok=True))


def _make_compacted(store: Store, folder: Path) -> None:
    synced(store, _copied_home(folder))
    compact(store)
    store.close()


@pytest.fixture(scope="module")
def compacted_file(folder: Path) -> Path:
    """A store that is copied for each test: making it takes longer than most tests."""
    _make_compacted(new_store(folder / "compacted.db"), folder)
    return folder / "compacted.db"


@pytest.fixture(scope="module")
def compacted_database(folder: Path, postgres_server: str) -> Iterator[str]:
    """The same on a server; its name."""
    name = f"compacted-{uuid.uuid4().hex}"
    address = server.new_database(postgres_server, name)
    _make_compacted(Store(PostgresDatabase(address, machine=MACHINE)), folder)
    yield name
    server.drop_database(postgres_server, name)


@pytest.fixture(params=["sqlite", "postgres"])
def compacted(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> Iterator[Store]:
    """A store of the home in which everything is packed."""
    if request.param == "sqlite":
        path = shutil.copyfile(request.getfixturevalue("compacted_file"), tmp_path / "store.db")
        store: Store = Store(SqliteDatabase(path, machine=MACHINE))
        yield store
        store.close()
        return
    address = request.getfixturevalue("postgres_server")
    name = f"test-{uuid.uuid4().hex}"
    template = request.getfixturevalue("compacted_database")
    store = Store(PostgresDatabase(server.new_database(address, name, template=template), machine=MACHINE))
    yield store
    store.close()
    server.drop_database(address, name)


def test_messages_need_a_fraction_of_the_space(store: Store, home: Path, tmp_path: Path) -> None:
    """Everything is read and found as before, and a second run has nothing to do."""
    synced(store, home)
    before = _sum(store, "block", "length(data)")
    # Scores depend on the time.
    now = datetime.now(UTC)
    found = store.search.run(parse("please"), now=now).found
    matches = list(search_regex(store, r"number \d+", Filters(), 10_000))
    compact(store)
    assert _sum(store, "block", "length(data)") < 0.8 * before
    assert _with_base(store, "block") > 0.7 * len(store.database.rows("SELECT 1 FROM block"))
    assert _with_base(store, "chunk") == 3
    assert difference(contents(store), fresh(tmp_path, home)) == ""
    assert store.search.run(parse("please"), now=now).found == found
    assert list(search_regex(store, r"number \d+", Filters(), 10_000)) == matches
    assert Verifier(store).run().faults == []
    assert (store.chunks.loose(None), store.blocks.loose(None)) == ([], {})


def test_only_quiet_files_are_packed(store: Store, home: Path) -> None:
    """One that has just changed is about to change again; one that was deleted is not."""
    old, gone = (log_of("claude", TURNS, name).write(home) for name in ("one", "other"))
    os.utime(old, (1e9, 1e9))
    synced(store, home)
    gone.unlink()
    synced(store, home)
    Maintenance(store).run()
    sql = """SELECT DISTINCT file.path FROM block JOIN session_file ON session_file.session = block.session
        JOIN file ON file.id = session_file.file WHERE block.tight = 1"""
    assert {path for (path,) in store.database.rows(sql)} == {str(old), str(gone)}
    sql = "SELECT DISTINCT file.path FROM chunk JOIN file ON file.id = chunk.file WHERE chunk.tight = 1"
    assert {path for (path,) in store.database.rows(sql)} == {str(old), str(gone)}


@pytest.mark.parametrize("backwards", [False, True])
def test_messages_are_read_once_while_they_are_packed(tmp_path: Path, backwards: bool) -> None:
    """Blocks are fetched a few at a time, and the last of them may be split before the next ones are fetched."""
    store = new_store(tmp_path / "store.db")
    log_of("claude", 200).write(tmp_path / "home")
    synced(store, tmp_path / "home")
    (row,) = store.sessions.select()
    read: list[int] = []
    for number, (block, _) in enumerate(store.blocks.each(row.id, row.messages * backwards, backwards=backwards)):
        read += range(block.first, block.first + block.length)
        if number == 7:
            compact(store)
            assert store.blocks.loose(None) == {}
    assert sorted(read) == list(range(row.messages))
    store.close()


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_that_grows_afterwards(compacted: Store, home: Path, tmp_path: Path, agent: str) -> None:
    """Only what is new is written, loosely; the next run packs that as well."""
    path = log_of(agent, TURNS).write(home)
    append(path, rest_of(log_of(agent, TURNS + 30), log_of(agent, TURNS)))
    synced(compacted, home)
    assert difference(contents(compacted), fresh(tmp_path, home)) == ""
    assert len(compacted.blocks.loose(None)) == 1
    compact(compacted)
    assert difference(contents(compacted), fresh(tmp_path, home)) == ""
    assert compacted.blocks.loose(None) == {}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_file_that_is_rewritten_afterwards(compacted: Store, home: Path, tmp_path: Path, agent: str) -> None:
    """Both versions can be restored, and the store is like a new one."""
    path = log_of(agent, TURNS).write(home)
    before = path.read_bytes()
    put(path, before.replace(b"number 1", b"the number 1"))
    synced(compacted, home)
    compact(compacted)
    assert difference(contents(compacted), fresh(tmp_path, home)) == ""
    session = compacted.sessions.find(str(path))
    assert [version.change for version in History(compacted, session).versions] == ["created", "rewritten"]
    for version, data in ((1, before), (2, path.read_bytes())):
        ((restored, _, _),) = restore_session(compacted, session, tmp_path / f"version {version}", version)
        assert restored.read_bytes() == data
    assert Verifier(compacted).run().faults == []


def test_a_forgotten_session(compacted: Store, home: Path, tmp_path: Path) -> None:
    """Nothing of it is left, and the others are as before."""
    path = log_of("claude", TURNS).write(home)
    row = compacted.sessions.find(str(path))
    with compacted.exclusive(), compacted.transaction():
        remove_session(compacted, row.agent, row.id, row.name)
    path.unlink()
    assert difference(contents(compacted, gone=True), fresh(tmp_path, home)) == ""
    assert Verifier(compacted).run().faults == []


def test_a_session_that_shares_its_file(store: Store, tmp_path: Path) -> None:
    """The messages of a sub-agent are packed against the same file. When that is removed, they stay."""
    path = session_with_agent().write(tmp_path / "home")
    synced(store, tmp_path / "home")
    compact(store)
    before = contents(store)["sessions"]
    file = store.files.at(str(path))
    assert file is not None
    sessions = store.files.sessions_of(file.id)
    assert len(sessions) == 2
    with store.transaction():
        for session in sessions:
            store.files.set_for_session(session, [])
        store.files.remove(file.id)
    assert _with_base(store, "block") == 0
    after = contents(store)["sessions"]
    assert {name: session["record"] for name, session in after.items()} == {
        name: session["record"] for name, session in before.items()
    }


def test_push_copies_messages_that_depend_on_nothing(compacted: Store, home: Path, tmp_path: Path) -> None:
    """The other store can read them without the rows of this one."""
    for path in home.rglob("*.json*"):
        path.unlink()
    for agent in AGENTS:
        log_of(agent, 1, "another").write(home)
    synced(compacted, home)
    team = new_store(tmp_path / "team.db")
    assert push_archived(compacted, team) == 6
    ours, theirs = (contents(store, gone=True)["sessions"] for store in (compacted, team))
    assert {name: ours[name] for name in theirs} == theirs
    assert (_with_base(team, "block"), _with_base(team, "chunk")) == (0, 0)
    assert Verifier(team).run().faults == []
    team.close()


# --- damage ----------------------------------------------------------------------------------------------------------


def _flip(store: Store, table: str, where: str) -> None:
    """Flip a bit in the middle of a row."""
    ((data,),) = store.database.rows(f"SELECT data FROM {table} WHERE {where}")
    damaged = bytearray(data)
    damaged[len(damaged) // 2] ^= 1
    store.database.rows(f"UPDATE {table} SET data = ? WHERE {where}", bytes(damaged))


def _damage_bytes(store: Store, path: Path) -> int:
    """Damage the archive of a file; returns its session."""
    _flip(store, "chunk", f"file = {store.files.at(str(path)).id}")  # type: ignore[union-attr]
    return store.sessions.find(str(path)).id


def _similar_files(store: Store, agent: str) -> list[Path]:
    """The two files of an agent: the second is packed against the first."""
    sql = """SELECT file.path FROM file JOIN chunk ON chunk.file = file.id WHERE file.agent = ?
        ORDER BY chunk.base IS NOT NULL"""
    return [Path(path) for (path,) in store.database.rows(sql, agent)]


def test_damaged_bytes_are_named_with_what_depends_on_them(compacted: Store, home: Path, tmp_path: Path) -> None:
    """The file that is packed against them, and each block that needs either; all of it is repaired with the bytes."""
    path, other = _similar_files(compacted, "claude")
    session = _damage_bytes(compacted, path)
    found = Verifier(compacted).run()
    files = {fault.name: fault.reason for fault in found.faults if fault.part == "bytes"}
    assert set(files) == {str(path), str(other)}
    assert f"{path}: bytes 0 to " not in files[str(path)]
    assert f"{path}: bytes 0 to " in files[str(other)]
    messages = [fault for fault in found.faults if fault.part == "messages"]
    assert {fault.id for fault in messages} == {session, compacted.sessions.find(str(other)).id}
    assert [fault.first for fault in messages if fault.id == session] == [0, 32, 64, 96, 128]
    assert all(f"{path}: bytes 0 to " in fault.reason for fault in messages)
    StoreRepair(compacted, home).run(found.faults)
    assert {fault.repaired_from for fault in found.faults if fault.name == str(path)} == {"the file on disk"}
    others = {fault.repaired_from for fault in found.faults if fault.name != str(path)}
    assert others == {"the repaired bytes that it is packed against"}
    assert Verifier(compacted).run().faults == []
    assert difference(contents(compacted), fresh(tmp_path, home)) == ""


def test_damaged_bytes_of_a_file_that_is_gone(compacted: Store, home: Path, tmp_path: Path) -> None:
    """Another store has them; without that, other sessions are not concerned, and removing it works."""
    _, path = _similar_files(compacted, "codex")
    team = new_store(tmp_path / "team.db")
    synced(team, home)
    path.unlink()
    synced(compacted, home)
    before = contents(compacted, gone=True)
    session = _damage_bytes(compacted, path)
    found = Verifier(compacted).run()
    StoreRepair(compacted, home).run(found.faults)
    assert {fault.repaired_from for fault in found.faults} == {None}
    assert {fault.id for fault in found.faults if fault.part == "messages"} == {session}
    StoreRepair(compacted, home, other=team).run(found.faults)
    assert None not in {fault.repaired_from for fault in found.faults}
    assert difference(contents(compacted, gone=True), before) == ""
    _damage_bytes(compacted, path)
    row = compacted.sessions.get(session)
    assert row is not None
    with compacted.exclusive(), compacted.transaction():
        remove_session(compacted, row.agent, row.id, row.name)
    assert Verifier(compacted).run().faults == []
    assert difference(contents(compacted), fresh(tmp_path, home)) == ""
    team.close()


def test_a_file_that_others_are_packed_against_can_be_removed(compacted: Store, home: Path, tmp_path: Path) -> None:
    """They no longer depend on it, and are packed against another one by the next run."""
    for agent in AGENTS:
        path, _ = _similar_files(compacted, agent)
        row = compacted.sessions.find(str(path))
        with compacted.exclusive(), compacted.transaction():
            remove_session(compacted, row.agent, row.id, row.name)
        path.unlink()
    assert _with_base(compacted, "chunk") == 0
    compact(compacted)
    assert Verifier(compacted).run().faults == []
    assert difference(contents(compacted, gone=True), fresh(tmp_path, home)) == ""


def test_few_files_are_packed_against_the_same_one(tmp_path: Path) -> None:
    """So that a damaged one concerns few others."""
    store = new_store(tmp_path / "store.db")
    for number in range(20):
        log_of("codex", 9, f"number {number}").write(tmp_path / "home")
    synced(store, tmp_path / "home")
    compact(store)
    counts = store.database.rows("SELECT count(*) FROM chunk WHERE base IS NOT NULL GROUP BY base ORDER BY 1")
    assert [count for (count,) in counts] == [1, 8, 8]
    assert difference(contents(store), fresh(tmp_path, tmp_path / "home")) == ""
    store.close()


def test_a_file_grows_that_another_is_packed_against(tmp_path: Path) -> None:
    """The other one is still unpacked with the bytes that were there before."""
    home, store = tmp_path / "home", new_store(tmp_path / "store.db")
    titles = {log_of("codex", 9, title).write(home): title for title in ("number 0", "number 1")}
    synced(store, home)
    compact(store)
    path, other = _similar_files(store, "codex")
    before = other.read_bytes()
    append(path, rest_of(log_of("codex", 12, titles[path]), log_of("codex", 9, titles[path])))
    synced(store, home)
    file = store.files.at(str(other))
    assert file is not None
    assert store.chunks.has_base(file.id, 0)
    # Another object, because this one still has it.
    assert Store(store.database).chunks.one(file.id, 0) == before
    store.close()


def test_a_file_and_its_new_version_never_depend_on_each_other(tmp_path: Path) -> None:
    """Each was packed against the other one's relatives."""
    home, store = tmp_path / "home", new_store(tmp_path / "store.db")
    paths = [log_of("codex", 9, f"number {number}").write(home) for number in range(3)]
    synced(store, home)
    for number in range(6):
        compact(store)
        path = paths[number % 3]
        put(path, path.read_bytes().replace(b"please", b"please %d" % number, 3))
        synced(store, home)
    compact(store)
    assert Verifier(store).run().faults == []
    assert difference(contents(store), fresh(tmp_path, home)) == ""
    store.close()


def test_versions_that_depend_on_each_other_through_different_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking for what depends on one of them ends, and all of them can be read."""
    chance, store = random.Random(1), new_store(tmp_path / "store.db")
    first, second, other = (chance.randbytes(10_000) for _ in range(3))
    contents = {
        "old": (first, second),
        "similar": (first, second),
        "new": (other[:8000] + first[:2000], second),
        "newest": (other[:8000] + first[:2000], second),
    }
    ids: dict[str, int] = {}

    def add(name: str, before: str = "") -> None:
        row = FileRow(0, "claude", "similar" if name == "similar" else "log", 0, 0, 20_000, 0, 20_000, b"")
        ids[name] = store.files.replace(ids[before], 1.0, row) if before else store.files.put(row)
        for number, chunk in enumerate(contents[name]):
            store.files.put_chunk(ids[name], number * 10_000, 10_000, pack(chunk))
        if before:
            store.files.shrink(ids[before], ids[name])

    walked: list[int] = []
    dependents = store.chunks._dependents

    def counted(file: int) -> list[int]:
        walked.append(file)
        assert len(walked) < 100
        return dependents(file)

    monkeypatch.setattr(store.chunks, "_dependents", counted)
    with store.transaction():
        add("old")
        add("similar")
        for name in ("old", "similar"):
            store.chunks.tighten(ids[name], 0)
        add("new", before="old")
        store.chunks.tighten(ids["new"], 0)
        store.files.remove(ids.pop("similar"))
        assert (dependents(ids["old"]), dependents(ids["new"])) == ([ids["new"]], [ids["old"]])
        add("newest", before="new")
    for name, id in ids.items():
        assert b"".join(store.files.chunks(id)) == b"".join(contents[name])
    store.close()


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_damaged_block(compacted: Store, home: Path, tmp_path: Path, is_gone: bool) -> None:
    """It is found by its own checksum, and read again from the file or the archive."""
    path = log_of("claude", TURNS).write(home)
    if is_gone:
        path.unlink()
        synced(compacted, home)
    before = contents(compacted, gone=True)
    session = compacted.sessions.find(str(path)).id
    _flip(compacted, "block", f"session = {session} AND first = 64")
    found = Verifier(compacted).run()
    assert [(fault.part, fault.id, fault.first) for fault in found.faults] == [("messages", session, 64)]
    StoreRepair(compacted, home).run(found.faults)
    assert [fault.repaired_from for fault in found.faults] == ["the archive" if is_gone else "the file on disk"]
    assert difference(contents(compacted, gone=True), before) == ""


def test_damage_does_not_stop_maintenance(store: Store, home: Path) -> None:
    """Other sessions are packed."""
    synced(store, home)
    path = log_of("claude", TURNS).write(home)
    session = _damage_bytes(store, path)
    other = next(row.id for row in store.sessions.select() if row.id != session)
    _flip(store, "block", f"session = {other} AND first = 0")
    compact(store)
    loose = store.blocks.loose(None)
    assert set(loose) == {other}
    assert len(store.messages.read(session)) == store.sessions.get(session).messages  # type: ignore[union-attr]
    assert session not in {damage.session for damage in store.messages.damaged}


# --- long files ------------------------------------------------------------------------------------------------------


def _long_log(lines: int, seed: int = 1) -> ClaudeLog:
    """A log of some lines of half a megabyte that have a part in common.

    Their words are long: each is indexed, and compared by the tests, and only the number of bytes matters here.
    """
    chance = random.Random(seed)
    words = [f"word{chance.randrange(10**200)}" for _ in range(1_160)]
    log = ClaudeLog("long")
    for number in range(lines):
        other = [f"other{chance.randrange(10**200)}" for _ in range(1_400)]
        log.user(" ".join(words + other), f"prompt {number}")
    return log


def test_chunks_are_packed_against_the_first_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any part of the file can be read, and the file can grow and be rewritten."""
    monkeypatch.setattr(compression, "_TIGHT_LEVEL", 3)  # Only the size depends on it, and most of the time.
    home, store = tmp_path / "home", new_store(tmp_path / "store.db")
    log = _long_log(10)
    path = log.write(home)
    synced(store, home)
    before = _sum(store, "chunk", "length(data)")
    compact(store)
    assert _sum(store, "chunk", "length(data)") < 0.9 * before
    file = store.files.at(str(path))
    assert file is not None
    whole = log.data
    sql = "SELECT start, base_start, base_length FROM chunk WHERE file = ? ORDER BY start"
    starts = store.database.rows(sql, file.id)
    assert [tuple(row[1:]) for row in starts[:4]] == [(None, None)] + [(0, MEGABYTE)] * 3
    for start in (0, 5, 3 * MEGABYTE - 7, 4 * MEGABYTE, len(whole) - 10):
        assert store.chunks.span(file.id, start, 10) == whole[start : start + 10]
    with pytest.raises(DamagedError, match="missing in the store"):
        store.chunks.span(file.id, len(whole) - 5, 10)
    append(path, rest_of(_long_log(12), log))
    synced(store, home)
    put(path, path.read_bytes().replace(b"word1", b"1word"))
    synced(store, home)
    compact(store)
    assert difference(contents(store), fresh(tmp_path, home)) == ""
    session = store.sessions.find(str(path))
    for version, data in ((1, whole), (2, _long_log(12).data), (3, path.read_bytes())):
        ((restored, _, _),) = restore_session(store, session, tmp_path / f"version {version}", version)
        assert restored.read_bytes() == data
    assert Verifier(store).run().faults == []
    store.close()


def test_damage_in_a_long_file(tmp_path: Path) -> None:
    """The chunks that are packed against a damaged one are named with it, and repaired after it."""
    home, store = tmp_path / "home", new_store(tmp_path / "store.db")
    path = _long_log(5).write(home)
    synced(store, home)
    compact(store)
    _flip(store, "chunk", "start = 0")
    found = Verifier(store).run()
    starts = [fault.first for fault in found.faults if fault.part == "bytes"]
    assert starts == [start for (start,) in store.database.rows("SELECT start FROM chunk ORDER BY start")]
    assert found.faults[-1].reason.startswith(f"{path}: bytes 0 to {MEGABYTE - 1} are damaged")
    assert found.faults[-1].count < MEGABYTE
    StoreRepair(store, home).run(found.faults)
    assert found.is_intact
    assert Verifier(store).run().faults == []
    assert difference(contents(store), fresh(tmp_path, home)) == ""
    store.close()


def test_unpacked_bytes_are_those_that_are_stored_now(compacted: Store) -> None:
    """Another program may have removed the file, and its number belongs to another one."""
    assert len(compacted.chunks.span(1, 0, 10)) == 10
    compacted.chunks.put(1, 0, 10, pack(b"0123456789"))
    assert compacted.chunks.span(1, 0, 10) == b"0123456789"
