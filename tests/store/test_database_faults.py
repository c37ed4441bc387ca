"""A database that fails at any statement: the next run makes it good.

Each statement fails in turn, in each of these ways: all with `make faults`, some otherwise.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from unspool.cli.main import main
from unspool.core.errors import NoSpaceError, UnspoolError
from unspool.ingest.push import push_archived
from unspool.ingest.session import forget_session
from unspool.ingest.store_repair import StoreRepair
from unspool.ingest.sync import Syncer
from unspool.ingest.verify import Verifier
from unspool.store import locate
from unspool.store.backends import sqlite
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.maintenance import Maintenance
from unspool.store.store import Store
from unspool.testing import ClaudeLog

from .contents import MACHINE, contents, difference, new_store, on_disk, synced
from .statement_faults import IS_WHOLE, KilledError, Situation, fail_at_every_statement, gone_in

PAGE = 4096


def _failure(code: int, text: str) -> Exception:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return sqlite._explained(error, Path("store.db"))


FAULTS: dict[str, Callable[[], BaseException]] = {
    "killed": KilledError,
    "full": lambda: _failure(sqlite3.SQLITE_FULL, "database or disk is full"),
    "read-only": lambda: _failure(sqlite3.SQLITE_READONLY, "attempt to write a readonly database"),
    "locked": lambda: _failure(sqlite3.SQLITE_BUSY, "database is locked"),
    "I/O error": lambda: _failure(sqlite3.SQLITE_IOERR, "disk I/O error"),
}


def open_again(path: Path) -> Store:
    return Store(SqliteDatabase(path, machine=MACHINE))


class FileSituation(Situation):
    """With the earlier store in a file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, new_store(folder / "before.db"))

    def copy(self, name: str = "store.db") -> Path:
        """A copy of that store."""
        for path in self.folder.glob(f"{name}*"):
            path.unlink()
        return Path(shutil.copyfile(self.folder / "before.db", self.folder / name))


@pytest.fixture(scope="module")
def situation(tmp_path_factory: pytest.TempPathFactory) -> FileSituation:
    return FileSituation(tmp_path_factory.mktemp("situation"))


def fail_often(
    path: Callable[[], Path], work: Callable[[Store], object], check: Callable[[Store], None], fault: str, step: int
) -> int:
    """Let a store in a file fail.

    Only one of `step` statements fails, which are others for each fault, unless all are asked for.
    """
    first = list(FAULTS).index(fault) * step // len(FAULTS)
    numbers = count(1) if IS_WHOLE else count(1 + first, step)
    return fail_at_every_statement(
        lambda: open_again(path()),
        lambda store: open_again(Path(store.location)),
        work,
        check,
        lambda _: FAULTS[fault],
        numbers,
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_sync_that_fails_is_made_good_by_the_next(situation: FileSituation, fault: str) -> None:
    """What is on disk is as in a new store; what is gone from it stays."""

    def check(store: Store) -> None:
        whole = contents(store, gone=True)
        assert difference(on_disk(store, whole), situation.expected) == ""
        assert len(gone_in(whole, situation.expected)) == 1

    def work(store: Store) -> None:
        Syncer(store, situation.home).run()

    assert fail_often(situation.copy, work, check, fault, 29) > 5


@pytest.mark.parametrize("fault", FAULTS)
def test_a_push_that_fails_is_made_good_by_the_next(situation: FileSituation, fault: str) -> None:
    """The other store gets everything once."""
    source = open_again(situation.copy("source.db"))
    synced(source, situation.home)
    whole = contents(source, gone=True)

    def target() -> Path:
        for path in situation.folder.glob("target.db*"):
            path.unlink()
        new_store(situation.folder / "target.db").close()
        return situation.folder / "target.db"

    def work(store: Store) -> None:
        push_archived(source, store)

    def check(store: Store) -> None:
        pushed, gone = contents(store, gone=True), gone_in(whole, situation.expected)
        assert pushed["sessions"] == {name: whole["sessions"][name] for name in gone}

    assert fail_often(target, work, check, fault, 13) > 3
    source.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_repair_that_fails_is_made_good_by_the_next(situation: FileSituation, fault: str) -> None:
    """Of a session on disk, and of one that only the archive has."""

    def damaged() -> Path:
        path = situation.copy()
        store = open_again(path)
        store.database.rows("UPDATE block SET data = zeroblob(9)")
        store.close()
        return path

    def work(store: Store) -> None:
        StoreRepair(store, situation.home).run(Verifier(store).run().faults)

    def check(store: Store) -> None:
        assert Verifier(store).run().faults == []
        synced(store, situation.home)
        whole = contents(store, gone=True)
        assert difference(on_disk(store, whole), situation.expected) == ""
        assert len(gone_in(whole, situation.expected)) == 1

    assert fail_often(damaged, work, check, fault, 131) > 3


@pytest.mark.parametrize("fault", FAULTS)
def test_maintenance_that_fails_is_continued_by_the_next(situation: FileSituation, fault: str) -> None:
    """Everything is packed in the end, and is what it was."""

    def work(store: Store) -> None:
        Maintenance(store, everything=True).run()

    def check(store: Store) -> None:
        assert (store.chunks.loose(None), store.blocks.loose(None)) == ([], {})
        assert Verifier(store).run().faults == []
        assert difference(contents(store, gone=True), situation.before) == ""

    assert fail_often(situation.copy, work, check, fault, 13) > 5


def test_a_forgotten_session_is_gone_completely_or_not_at_all(situation: FileSituation) -> None:
    """It is never removed without a note that it is not imported again."""

    def work(store: Store) -> None:
        for row in store.sessions.select():
            if row.title is not None and "left alone" in row.title:
                with store.exclusive(), store.transaction():
                    forget_session(store, row)

    def check(store: Store) -> None:
        synced(store, situation.home)
        left = {name for name in situation.expected["sessions"] if _is_left_alone(situation, name)}
        assert len(left) == 3
        assert set(contents(store)["sessions"]) == set(situation.expected["sessions"]) - left

    assert fail_often(situation.copy, work, check, "killed", 19) > 3


def _is_left_alone(situation: FileSituation, name: str) -> bool:
    return b"left alone" in situation.expected["sessions"][name]["record"]


def test_a_disk_that_is_full_at_any_size(situation: FileSituation) -> None:
    """SQLite itself fails, wherever it needs the next page."""
    failed = 0
    for more in range(0, 1000, 1 if IS_WHOLE else 29):
        store = open_again(situation.copy())
        ((pages,),) = store.database.rows("PRAGMA page_count")
        store.database.rows(f"PRAGMA max_page_count = {pages + more}")
        try:
            Syncer(store, situation.home).run()
            break
        except UnspoolError:
            failed += 1
        finally:
            store.close()
        store = open_again(Path(store.location))
        synced(store, situation.home)
        assert difference(contents(store), situation.expected) == ""
        store.close()
    assert failed


def test_a_damaged_page(
    situation: FileSituation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verification names it, and the store is rebuilt from what can be read and what is on disk."""
    whole = (situation.folder / "before.db").read_bytes()
    monkeypatch.setenv("UNSPOOL_DATA", str(situation.folder / "data"))
    monkeypatch.setattr(locate, "machine_identity", lambda *_, **__: MACHINE)
    numbers = range(1, len(whole) // PAGE, 1 if IS_WHOLE else 9)
    kept = unreadable = 0
    for number in numbers:
        path = situation.copy("damaged.db")
        damaged = bytearray(whole)
        damaged[number * PAGE : (number + 1) * PAGE] = random.Random(number).randbytes(PAGE)
        path.write_bytes(damaged)
        code = main(["verify", "--repair", "--store", str(path), "--home", str(situation.home)])
        said = capsys.readouterr()
        if "is damaged or not an unspool store" in said.err:
            # Not even the tables or the machine can be found.
            unreadable += 1
            continue
        store = open_again(path)
        synced(store, situation.home)
        now = contents(store, gone=True)
        assert difference(on_disk(store, now), situation.expected) == "", number
        gone = gone_in(now, situation.expected)
        assert (code == 0) == (Verifier(store).run().faults == []), said.out
        kept += len(gone)
        store.close()
    assert unreadable < 6
    assert kept > len(numbers) // 2


@pytest.mark.parametrize("pages", [1, 5, 40])
def test_a_new_store_on_a_full_disk(pages: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite ends the transaction itself, and the error is still the one that says what to do."""
    connect = sqlite._connect

    def connect_full(path: str) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(sqlite, "_connect", connect_full)
    with pytest.raises(NoSpaceError, match="disk is full; free some disk space"):
        SqliteDatabase(tmp_path / "s.db", machine=MACHINE)
    monkeypatch.undo()
    open_again(tmp_path / "s.db").close()


@pytest.mark.parametrize("arguments", [("search", "number"), ("stats",), ("archive", "--all")], ids=" ".join)
def test_reading_commands_show_the_store_on_a_full_disk(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They say that something is missing, also with the exit code."""
    log = ClaudeLog()
    log.user("number one")
    log.write(tmp_path)
    source = ("--home", str(tmp_path), "--store", str(tmp_path / "s.db"))
    assert main([*arguments, *source]) == 0
    expected = capsys.readouterr().out
    log.user("number two")
    log.write(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise FAULTS["full"]()

    monkeypatch.setattr(SqliteDatabase, "insert", fail)
    assert main([*arguments, *source]) == 1
    out, err = capsys.readouterr()
    assert out == expected
    assert (
        "free some disk space and try again, nothing is lost. The newest sessions and messages may be missing." in err
    )


def test_reading_commands_do_not_wait_for_a_program_that_locks_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They show the store as it is. `unspool sync` waits longer."""
    monkeypatch.setattr("unspool.cli._shared.store._LOCK_SECONDS", 0.01)
    log = ClaudeLog()
    log.user("number one")
    log.write(tmp_path)
    source = ("--home", str(tmp_path), "--store", str(tmp_path / "s.db"))
    assert main(["search", "number", *source]) == 0
    expected = capsys.readouterr().out
    log.user("number two")
    log.write(tmp_path)
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert main(["search", "number", *source]) == 0
    out, err = capsys.readouterr()
    assert out == expected
    assert "The newest sessions and messages may be missing." in err
