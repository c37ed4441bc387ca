"""Every damaged bit in a store is found, located and named; reading continues; what can be repaired is."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.file_faults import failing
from tests.store.contents import MACHINE, contents, difference, fresh, new_store, synced
from tests.store.homes import AGENTS, log_of, write_home
from unspool.core.errors import BusyError, DamagedError
from unspool.ingest import store_repair
from unspool.ingest.push import push_archived
from unspool.ingest.restore import RestoredFile, restore_session
from unspool.ingest.session import remove_session
from unspool.ingest.store_repair import StoreRepair
from unspool.ingest.verify import Verifier
from unspool.ingest.watch import Watcher
from unspool.search.query import Filters, parse
from unspool.store import Store, compression
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.damage import REASON, is_placeholder
from unspool.store.integrity import DIFFERS, TWICE, StoreIntegrity
from unspool.store.maintenance import Maintenance
from unspool.store.regex_search import search_regex

BLOBS = {
    "block": "SELECT rowid, data FROM block ORDER BY rowid",
    "chunk": "SELECT rowid, data FROM chunk ORDER BY file, start",
    "head": "SELECT rowid, head FROM session ORDER BY rowid",
    "facts": "SELECT rowid, facts FROM session ORDER BY rowid",
}
COLUMNS = {"block": ("block", "data"), "chunk": ("chunk", "data"), "head": ("session", "head")}
COLUMNS["facts"] = ("session", "facts")
TURNS = 40
"""Several blocks of messages."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home and its store, which tests copy."""
    folder = tmp_path_factory.mktemp("original")
    write_home(folder / "home", TURNS)
    store = new_store(folder / "store.db")
    synced(store, folder / "home")
    store.database.optimize()
    store.close()
    return folder


@pytest.fixture
def store(original: Path, tmp_path: Path) -> Iterator[Store]:
    """A copy of the store; its files are on disk."""
    shutil.copyfile(original / "store.db", tmp_path / "store.db")
    store = open_copy(tmp_path / "store.db")
    yield store
    store.close()


def open_copy(path: Path) -> Store:
    return Store(SqliteDatabase(path, machine=MACHINE))


def flip(store: Store, kind: str, number: int, bit: int | None = None) -> bytes:
    """Flip a bit of a stored part, by default in the middle; returns what was stored."""
    rows = store.database.rows(BLOBS[kind])
    id, data = rows[number % len(rows)]
    damaged = bytearray(data)
    bit = len(damaged) * 4 if bit is None else bit % (len(damaged) * 8)
    damaged[bit // 8] ^= 1 << bit % 8
    put(store, kind, id, bytes(damaged))
    return bytes(data)


def put(store: Store, kind: str, id: int, data: bytes) -> None:
    table, column = COLUMNS[kind]
    store.database.rows(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", data, id)


@pytest.mark.parametrize("kind", BLOBS)
def test_every_flipped_bit_is_found(store: Store, kind: str) -> None:
    """All bits of the first bytes, and some of the others: one fault, at the right place."""
    chance = random.Random(1)
    rows = store.database.rows(BLOBS[kind])
    for number, (id, data) in enumerate(rows[:2]):
        bits = {*range(9 * 8), *(chance.randrange(len(data) * 8) for _ in range(120))}
        for bit in sorted(bits):
            flip(store, kind, number, bit)
            with pytest.raises(DamagedError):
                compression.unpack(store.database.rows(BLOBS[kind])[number][1])
            put(store, kind, id, data)
        flip(store, kind, number)
        (fault,) = Verifier(store).run().faults
        expected = {"block": "messages", "chunk": "bytes", "head": "summary", "facts": "corrections"}[kind]
        assert fault.part == expected
        put(store, kind, id, data)
    assert Verifier(store).run().faults == []


def test_an_intact_store(store: Store) -> None:
    """All of it was checked, and compared with the disk."""
    found = Verifier(store).run()
    assert found.is_intact
    assert found.counts.sessions == 6
    assert found.counts.blocks == store.database.rows("SELECT count(*) FROM block")[0][0] > 6
    assert found.counts.chunks == found.compared == store.database.rows("SELECT count(*) FROM chunk")[0][0]


def test_reading_continues_at_a_damaged_block(store: Store) -> None:
    """The other messages are as before, and what is missing is named: in the record, and for the command line."""
    before = {row.id: store.messages.read(row.id) for row in store.sessions.select()}
    (id, first, count), *_ = store.database.rows("SELECT session, first, count FROM block ORDER BY rowid")
    flip(store, "block", 0)
    store.messages.damaged.clear()
    record = store.messages.load_session(id)
    assert [message.index for message in record.messages] == [message.index for message in before[id]]
    assert [is_placeholder(message) for message in record.messages[:count]] == [True] * count
    assert record.messages[count:] == before[id][count:]
    (problem,) = [problem for problem in record.problems if problem.reason == REASON]
    assert f"messages {first} to {count - 1}" in problem.detail
    outlines = store.messages.outlines(id, store.messages.patches(id))
    assert [outline.index for outline in outlines] == [message.index for message in before[id]]
    assert len(list(store.messages.hashes(id))) == len(before[id])
    assert [damage.session for damage in store.messages.damaged] == [id]


def test_searching_continues_at_a_damaged_block(store: Store) -> None:
    """Words are still found in the index; a hit that cannot be shown is left out, and a pattern skips the block."""
    words = parse("please")
    before = store.search.run(words, 10, hits=1000).found
    matches = len(list(search_regex(store, "please do", Filters(), 10_000)))
    flip(store, "block", 0)
    found = store.search.run(words, 10, hits=1000).found
    assert {entry.session.id for entry in found} == {entry.session.id for entry in before}
    assert 0 < sum(len(entry.hits) for entry in found) < sum(len(entry.hits) for entry in before)
    assert 0 < len(list(search_regex(store, "please do", Filters(), 10_000))) < matches
    assert len(store.messages.damaged) == 1


@pytest.mark.parametrize("kind", BLOBS)
def test_damage_is_repaired_from_the_disk(store: Store, original: Path, tmp_path: Path, kind: str) -> None:
    """Afterwards the store is as if nothing had happened, the words in the index included."""
    home = original / "home"
    flip(store, kind, 1)
    if kind == "block":
        flip(store, kind, 3)
    found = Verifier(store).run()
    StoreRepair(store, home).run(found.faults)
    assert [fault.repaired_from for fault in found.faults] == ["the file on disk"] * len(found.faults)
    assert found.faults
    assert found.is_intact
    assert Verifier(store).run().faults == []
    assert difference(contents(store), fresh(tmp_path, home)) == ""


@pytest.mark.parametrize("kind", ["block", "head", "facts"])
def test_damage_is_repaired_from_the_archive(store: Store, original: Path, tmp_path: Path, kind: str) -> None:
    """The files are gone: the session is read from its archived bytes, under its old paths."""
    home = tmp_path / "home"
    store.database.rows("UPDATE file SET path = replace(path, ?, ?)", str(original), str(tmp_path))
    shutil.copytree(original / "home", home)
    store.database.rows("UPDATE session SET around = ''")
    synced(store, home)
    shutil.rmtree(home)
    home.mkdir()
    for agent in ("claude", "codex", "gemini"):
        log_of(agent, 1, "another").write(home)
    synced(store, home)
    before = contents(store, gone=True)
    gone = store.database.rows("SELECT name, gone_at, around FROM session ORDER BY name")
    flip(store, kind, 1)
    found = Verifier(store).run()
    StoreRepair(store, home).run(found.faults)
    assert [fault.repaired_from for fault in found.faults] == ["the archive"]
    assert difference(contents(store, gone=True), before) == ""
    assert store.database.rows("SELECT name, gone_at, around FROM session ORDER BY name") == gone


def test_archived_bytes_are_repaired_from_another_store(store: Store, original: Path, tmp_path: Path) -> None:
    """The file is gone, but a team has it, too."""
    team = new_store(tmp_path / "team.db")
    synced(team, original / "home")
    data = flip(store, "chunk", 2)
    store.database.rows("UPDATE file SET gone_at = 1")
    found = Verifier(store).run()
    StoreRepair(store, tmp_path).run(found.faults)
    assert [fault.repaired_from for fault in found.faults] == [None]
    assert found.faults[0].name in found.faults[0].text
    StoreRepair(store, tmp_path, other=team).run(found.faults)
    assert [fault.repaired_from for fault in found.faults] == ["the other store"]
    assert store.database.rows(BLOBS["chunk"])[2][1] == data
    team.close()


def test_the_end_of_a_chunk_is_repaired_from_another_store(store: Store, original: Path, tmp_path: Path) -> None:
    """The other store has it inside a longer chunk."""
    team = new_store(tmp_path / "team.db")
    synced(team, original / "home")
    content = b"".join(store.files.chunks(1))
    data = compression.pack(content[:500])
    store.database.rows("UPDATE chunk SET length = 500, data = ? WHERE file = 1", data)
    store.database.rows("UPDATE file SET gone_at = 1")
    found = Verifier(store).run()
    StoreRepair(store, tmp_path, other=team).run(found.faults)
    assert [fault.repaired_from for fault in found.faults] == ["the other store"]
    assert b"".join(store.files.chunks(1)) == content
    team.close()


def test_damage_outside_the_content_is_repaired_by_itself(store: Store) -> None:
    """Neither a file nor another store is needed if only the first bytes were hit."""
    store.database.rows("UPDATE file SET gone_at = 1")
    for bit in range(5 * 8):
        data = flip(store, "chunk", 0, bit)
        found = Verifier(store).run()
        StoreRepair(store).run(found.faults)
        assert [fault.repaired_from for fault in found.faults] == ["the part that is intact"]
        assert store.database.rows(BLOBS["chunk"])[0][1] == data


def test_a_damaged_archive_is_not_restored(store: Store, tmp_path: Path) -> None:
    """The file and the bytes are named, and nothing half is left."""
    flip(store, "chunk", 0)
    ((session,),) = store.database.rows("SELECT session FROM session_file WHERE file = 1")
    row = store.sessions.get(session)
    assert row is not None
    with pytest.raises(DamagedError, match=r"jsonl: bytes 0 to \d+ are damaged"):
        restore_session(store, row, tmp_path / "restored")
    assert [path for path in (tmp_path / "restored").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("table", ["block", "chunk"])
def test_what_is_missing_is_found(store: Store, original: Path, tmp_path: Path, table: str) -> None:
    """A row that a damaged database has lost."""
    store.database.rows(f"DELETE FROM {table} WHERE rowid = 2")
    found = Verifier(store).run()
    assert [fault.reason for fault in found.faults] == ["missing"]
    StoreRepair(store, original / "home").run(found.faults)
    assert found.is_intact
    if table == "chunk":
        assert difference(contents(store), fresh(tmp_path, original / "home")) == ""


def test_data_of_earlier_versions_gets_checksums(store: Store, original: Path, tmp_path: Path) -> None:
    """It is readable without them; damage is found where it cannot be decoded, or is not what is on disk."""
    expected = contents(store)
    for kind, sql in BLOBS.items():
        for id, data in store.database.rows(sql):
            put(store, kind, id, zstandard.ZstdCompressor().compress(compression.unpack(data)))
    assert difference(contents(store), expected) == ""
    flip(store, "chunk", 0)
    found = Verifier(store).run()
    assert [fault.part for fault in found.faults] == ["bytes"]
    assert found.counts.sealed == sum(len(store.database.rows(sql)) for sql in BLOBS.values()) - 1
    StoreRepair(store, original / "home").run(found.faults)
    assert found.is_intact
    again = Verifier(store).run()
    assert (again.faults, again.counts.sealed) == ([], 0)
    assert difference(contents(store), fresh(tmp_path, original / "home")) == ""


def test_push_copies_checksums(store: Store, tmp_path: Path) -> None:
    """The other store can be verified as well."""
    store.database.rows("UPDATE session SET gone_at = 1")
    team = new_store(tmp_path / "team.db")
    assert push_archived(store, team) == 6
    assert Verifier(team).run().faults == []
    team.close()


def test_the_store_is_verified_and_repaired_when_nothing_changes(
    store: Store, original: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be repaired is reported with the files that cannot be read, until it can."""
    watcher = Watcher(store, original / "home", verifies=True)
    watcher.ingest(set())
    flip(store, "block", 0)
    data = flip(store, "chunk", 2)
    store.database.rows("UPDATE file SET path = '/nowhere/it.jsonl', gone_at = 1 WHERE id = 3")
    monkeypatch.setattr(watcher._health, "_not_before", 0.0)
    while not watcher.failures:
        watcher.verify_briefly()
    assert list(watcher.failures) == ["/nowhere/it.jsonl"]
    assert [fault.part for fault in Verifier(store).run().faults] == ["bytes"]
    put(store, "chunk", store.database.rows(BLOBS["chunk"])[2][0], data)
    monkeypatch.setattr(watcher._health, "_not_before", 0.0)
    while watcher.failures:
        watcher.verify_briefly()
    assert Verifier(store).run().faults == []


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[Store]:
    """A store of a small home in the same folder, whose files may change."""
    write_home(tmp_path / "home")
    store = new_store(tmp_path / "store.db")
    synced(store, tmp_path / "home")
    yield store
    store.close()


def grow(store: Store, home: Path, turns: int) -> None:
    """Write turns that were appended to each agent's first log, and archive them."""
    for agent in AGENTS:
        log_of(agent, turns).write(home)
    synced(store, home)


def test_logs_that_grow_while_they_are_verified_are_not_damaged(changing: Store, tmp_path: Path) -> None:
    """A verification takes breaks, in which a followed session is archived: that is neither missing nor different."""
    home = tmp_path / "home"
    verifier = Verifier(changing)
    for turns, _ in enumerate(verifier.steps(), 4):
        grow(changing, home, turns)
    assert verifier.found.faults == []
    assert difference(contents(changing), fresh(tmp_path, home)) == ""


@pytest.mark.parametrize("damage", ["UPDATE chunk SET data = x'00'", "DELETE FROM chunk"], ids=["damaged", "missing"])
def test_what_was_archived_again_since_it_was_verified_is_not_repaired(
    changing: Store, tmp_path: Path, damage: str
) -> None:
    """The sync has replaced the damaged chunk by a longer one, which must not be replaced by what was there before."""
    home = tmp_path / "home"
    changing.database.rows(damage)
    found = Verifier(changing).run()
    assert [fault.part for fault in found.faults] == ["bytes"] * 6
    grow(changing, home, 5)
    StoreRepair(changing, home).run(found.faults)
    assert (
        sorted(fault.repaired_from or "" for fault in found.faults) == ["a later sync"] * 3 + ["the file on disk"] * 3
    )
    assert difference(contents(changing), fresh(tmp_path, home)) == ""
    assert Verifier(changing).run().faults == []


def test_sessions_that_are_forgotten_while_the_store_is_verified(changing: Store, tmp_path: Path) -> None:
    """Their files are not verified any more, and those that were found damaged have nothing to repair."""
    changing.database.rows("UPDATE chunk SET data = x'00' WHERE file = 1")
    verifier = Verifier(changing)
    for _ in verifier.steps():
        if verifier.found.faults and changing.sessions.select():
            with changing.exclusive(), changing.transaction():
                for row in changing.sessions.select():
                    remove_session(changing, row.agent, row.id, row.name)
    assert [fault.part for fault in verifier.found.faults] == ["bytes"]
    StoreRepair(changing, tmp_path / "home").run(verifier.found.faults)
    assert verifier.found.faults == []


def forgetting(store: Store, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function before which all sessions are forgotten."""

    def call(*args: Any) -> Any:
        with store.exclusive(), store.transaction():
            for row in store.sessions.select():
                remove_session(store, row.agent, row.id, row.name)
        return function(*args)

    return call


@pytest.mark.parametrize("step", ["chunk_data", "bytes_fault"])
def test_a_session_that_is_forgotten_in_the_middle_of_a_step(
    changing: Store, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A file that is gone from the store has no damage."""
    if step == "bytes_fault":
        changing.database.rows("DELETE FROM chunk")
    monkeypatch.setattr(StoreIntegrity, step, forgetting(changing, getattr(StoreIntegrity, step)))
    assert Verifier(changing).run().faults == []
    assert changing.sessions.select() == []


def test_a_session_that_is_forgotten_while_its_files_are_repaired(
    changing: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to repair, and nothing is reported."""
    changing.database.rows("UPDATE chunk SET data = x'00'")
    found = Verifier(changing).run()
    assert len(found.faults) == 6
    monkeypatch.setattr(StoreRepair, "_repair_bytes", forgetting(changing, StoreRepair._repair_bytes))
    StoreRepair(changing, tmp_path / "home").run(found.faults)
    assert found.faults == []
    assert changing.database.rows("SELECT count(*) FROM chunk") == [(0,)]


def test_different_bytes_that_cannot_be_read_are_not_repaired(changing: Store, tmp_path: Path) -> None:
    """The file differs although its times are the same; reading it fails, so its bytes are not archived."""
    home = tmp_path / "home"
    path = next(path for path in home.rglob("*.jsonl") if "codex" in str(path))
    times = path.stat()
    path.write_bytes(path.read_bytes().replace(b"number 1", b"NUMBER 1"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    found = Verifier(changing).run()
    assert [fault.reason for fault in found.faults] == [DIFFERS]
    with failing(home, lambda kind, where: kind == "read" and where == path).active():
        StoreRepair(changing, home).run(found.faults)
    assert not found.is_intact
    StoreRepair(changing, home).run(found.faults)
    assert found.is_intact


def test_a_session_cannot_change_while_it_is_read_from_the_archive(
    changing: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was appended after its files were restored would be removed again."""
    restored = []

    def restore(*args: Any) -> list[RestoredFile]:
        with pytest.raises(BusyError), changing.exclusive(patience=0.0):
            pass
        restored.append(args)
        return restore_session(*args)

    shutil.rmtree(tmp_path / "home")
    flip(changing, "block", 1)
    found = Verifier(changing).run()
    monkeypatch.setattr(store_repair, "restore_session", restore)
    StoreRepair(changing, tmp_path / "home").run(found.faults)
    assert [fault.repaired_from for fault in found.faults] == ["the archive"]
    assert len(restored) == 1


@pytest.fixture
def in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store like `changing`, in which each file has many chunks."""
    monkeypatch.setattr("unspool.ingest.archive.CHUNK", 400)
    write_home(tmp_path / "home")
    store = new_store(tmp_path / "store.db")
    synced(store, tmp_path / "home")
    yield store
    store.close()


def store_twice(store: Store, start: int, length: int, data: bytes | None = None) -> None:
    """Add a chunk to the first file, as the repair of an earlier version did while the file grew."""
    content = b"".join(store.files.chunks(1))[start : start + length]
    row = (1, start, length, compression.pack(content if data is None else data))
    store.database.insert("chunk", "file, start, length, data", [row])


@pytest.mark.parametrize(("start", "length"), [(100, 200), (100, 300), (100, 500), (300, 1300), (450, 350)])
@pytest.mark.parametrize("is_gone", [False, True], ids=["on disk", "gone"])
def test_bytes_that_are_stored_twice_are_removed(
    in_chunks: Store, tmp_path: Path, start: int, length: int, is_gone: bool
) -> None:
    """The other chunks have the same bytes, in their order: nothing is lost."""
    home = tmp_path / "home"
    Maintenance(in_chunks, everything=True).run()
    expected = contents(in_chunks)
    chunks = "SELECT start, length, data FROM chunk WHERE file = 1 ORDER BY start"
    before = in_chunks.database.rows(chunks)
    store_twice(in_chunks, start, length)
    if is_gone:
        in_chunks.database.rows("UPDATE file SET gone_at = 1")
    faults = [fault for fault in Verifier(in_chunks).run().faults if fault.part == "bytes"]
    assert [(fault.first, fault.reason) for fault in faults] == [(start, TWICE)]
    found = Verifier(in_chunks).run()
    StoreRepair(in_chunks, home).run(found.faults)
    assert found.is_intact
    in_chunks.database.rows("UPDATE file SET gone_at = NULL")
    assert in_chunks.database.rows(chunks) == before
    assert Verifier(in_chunks).run().faults == []
    assert difference(contents(in_chunks), expected) == ""


def test_two_contents_of_the_same_bytes(in_chunks: Store, tmp_path: Path) -> None:
    """Only the file on disk can say which of them is right; without it, both are kept."""
    store_twice(in_chunks, 300, 200, b"?" * 200)
    count = in_chunks.database.rows("SELECT count(*) FROM chunk")
    in_chunks.database.rows("UPDATE file SET gone_at = 1")
    found = Verifier(in_chunks).run()
    StoreRepair(in_chunks, tmp_path / "home").run(found.faults)
    assert [(fault.reason, fault.repaired_from) for fault in found.faults] == [(TWICE, None)]
    assert in_chunks.database.rows("SELECT count(*) FROM chunk") == count
    in_chunks.database.rows("UPDATE file SET gone_at = NULL")
    found = Verifier(in_chunks).run()
    StoreRepair(in_chunks, tmp_path / "home").run(found.faults)
    assert {fault.repaired_from for fault in found.faults} == {"the file on disk"}
    assert in_chunks.database.rows("SELECT count(*) FROM file WHERE replaced_at IS NOT NULL") == [(0,)]
    assert Verifier(in_chunks).run().faults == []
    assert difference(contents(in_chunks), fresh(tmp_path, tmp_path / "home")) == ""


@pytest.mark.parametrize("start", [100, 400], ids=["superfluous", "needed"])
def test_damaged_bytes_that_are_stored_twice(in_chunks: Store, tmp_path: Path, start: int) -> None:
    """A superfluous chunk is removed even if it is damaged, and one that is needed is repaired first."""
    store_twice(in_chunks, 100, 400)
    in_chunks.database.rows("UPDATE chunk SET data = x'00' WHERE file = 1 AND start = ?", start)
    found = Verifier(in_chunks).run()
    StoreRepair(in_chunks, tmp_path / "home").run(found.faults)
    copied, on_disk = "the other copy of these bytes", "the file on disk"
    expected = {100: copied, start: copied if start == 100 else on_disk}
    assert {fault.first: fault.repaired_from for fault in found.faults} == expected
    assert Verifier(in_chunks).run().faults == []
    assert difference(contents(in_chunks), fresh(tmp_path, tmp_path / "home")) == ""


def test_bytes_that_are_needed_are_not_removed(in_chunks: Store, tmp_path: Path) -> None:
    """If the other chunks do not have all bytes of one that overlaps them, it stays."""
    in_chunks.database.rows("UPDATE file SET gone_at = 1")
    store_twice(in_chunks, 300, 500)
    in_chunks.database.rows("DELETE FROM chunk WHERE file = 1 AND start = 400")
    found = Verifier(in_chunks).run()
    StoreRepair(in_chunks, tmp_path / "home").run(found.faults)
    assert not found.is_intact
    assert in_chunks.database.rows("SELECT length FROM chunk WHERE file = 1 AND start = 300") == [(500,)]


def test_messages_that_were_packed_against_bytes_stored_twice_stay_readable(in_chunks: Store, tmp_path: Path) -> None:
    """Their base is different once the superfluous chunk is removed."""
    expected = contents(in_chunks)
    store_twice(in_chunks, 300, 200)
    Maintenance(in_chunks, everything=True).run()
    found = Verifier(in_chunks).run()
    StoreRepair(in_chunks, tmp_path / "home").run(found.faults)
    assert found.is_intact
    assert Verifier(in_chunks).run().faults == []
    assert difference(contents(in_chunks), expected) == ""
