"""The identity of a machine survives a damaged file, and a store can be read where nothing can be written."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from unspool.core.errors import BusyError, NotWritableError, UnspoolError
from unspool.ingest.sync import Syncer
from unspool.store import open_store
from unspool.store.backends import sqlite
from unspool.store.decision_log import FILE_NAME
from unspool.store.decision_verify import verify_decisions
from unspool.store.locate import machine_identity
from unspool.store.run_log import RunLog

from .conftest import Open
from .contents import contents, difference, synced
from .homes import claude_log, write_home
from .more_migrations import MoreMigrations
from .test_decision_log import denied

NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory with a store of two sessions of each agent."""
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path / "data"))
    write_home(tmp_path / "home")
    store = open_store()
    synced(store, tmp_path / "home")
    store.close()
    return tmp_path / "data"


TORN: dict[str, Callable[[str], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda key: key[:11].encode(),
    "zeros after a power cut": lambda _: bytes(33),
    "not text": lambda _: b"\xff\xfe\xfd",
}


@pytest.mark.parametrize("torn", [*TORN, "missing"])
def test_a_damaged_machine_file_does_not_double_the_store(folder: Path, tmp_path: Path, torn: str) -> None:
    """The store knows the key, too: nothing is imported a second time, and the file is complete again."""
    key = (folder / "machine").read_text()
    (folder / "machine").unlink()
    if torn in TORN:
        (folder / "machine").write_bytes(TORN[torn](key))
    store = open_store()
    assert synced(store, tmp_path / "home").new == 0
    assert store.database.rows("SELECT count(*) FROM machine") == [(1,)]
    store.close()
    assert (folder / "machine").read_text() == key


def test_the_key_of_this_machine_is_found_among_several(folder: Path) -> None:
    """A store may have sessions of others: what is left in the file decides, else the machine that created it."""
    key = (folder / "machine").read_text().strip()
    store = open_store()
    store.database.rows("INSERT INTO machine (key, name) VALUES (?, 'another')", f"{key[::-1]}")
    store.close()
    for left, expected in ((key[:6], key), (key[::-1][:6], key[::-1]), ("", key)):
        (folder / "machine").write_text(left)
        assert machine_identity(folder)[0] == expected


def test_a_new_machine_does_not_take_the_key_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens a store that others share, also after its own file was damaged."""
    shared = str(tmp_path / "shared.db")
    keys = []
    for name in ("first", "second"):
        monkeypatch.setattr(platform, "node", lambda name=name: name)
        folder = tmp_path / name
        open_store(shared, environ={"UNSPOOL_DATA": str(folder)}).close()
        keys.append((folder / "machine").read_text().strip())
    assert len(set(keys)) == 2
    for left, expected in ((keys[1][:9], keys[1]), ("", None)):
        (folder / "machine").write_text(left)
        assert machine_identity(folder, Path(shared))[0] not in ({*keys} - {expected})


def test_the_key_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut, the file is complete or missing."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    key, _ = machine_identity(tmp_path)
    assert synced[0] == len(key) + 1


# --- nothing can be written -------------------------------------------------------------------------------------------


@contextmanager
def _without_rights(folder: Path) -> Iterator[None]:
    """Nothing in a folder can be written; the administrator becomes another user for that."""
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root:
        for parent in folder.parents:
            if parent.stat().st_mode & 0o055 != 0o055:
                parent.chmod(parent.stat().st_mode | 0o055)
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no such rights there")
@pytest.mark.parametrize("left", ["clean", "killed", "live", "older"])
def test_a_store_is_readable_where_nothing_can_be_written(
    folder: Path, tmp_path: Path, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the last writer left: nothing, a log that SQLite needs an index for, or both; or an older version."""
    store = open_store()
    expected = contents(store)
    if left == "clean":
        store.close()
    else:
        # The newest changes are in the log beside the store only.
        store.database.rows("PRAGMA wal_autocheckpoint = 0")
        log = claude_log(4, "newest").write(tmp_path / "home")
        synced(store, tmp_path / "home")
        expected = contents(store)
        assert any(str(log) == name for name in expected["files"])
    if left in ("killed", "older"):
        copy = tmp_path / "killed"
        copy.mkdir()
        for name in ("machine", "sessions.db", "sessions.db-wal"):
            shutil.copyfile(folder / name, copy / name)
        store.close()
        folder = copy
        monkeypatch.setenv("UNSPOOL_DATA", str(folder))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    if left == "older":
        monkeypatch.setattr(sqlite, "_MIGRATIONS", MoreMigrations("sqlite", "CREATE TABLE extra (number BIGINT)"))
    with _without_rights(folder):
        with pytest.raises(NotWritableError):
            open_store().database.rows("DELETE FROM session")
        reader = open_store(read_only=True)
        assert reader.database.read_only
        assert reader.machine
        assert difference(contents(reader), expected) == ""
        reader.close()
    assert list(scratch.iterdir()) == []
    if left == "live":
        store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no such rights there")
def test_decisions_are_readable_where_nothing_can_be_written(folder: Path) -> None:
    """What a person decided is part of every record."""
    with closing(RunLog(folder / FILE_NAME)) as log:
        log.record_decision("run", denied(), {})
    with _without_rights(folder):
        assert verify_decisions(folder).decisions == 1


def test_a_run_does_not_wait_for_another_forever(open_again: Open, tmp_path: Path) -> None:
    """With patience, it says that it could not get its turn; afterwards everything works again."""
    home = tmp_path / "home"
    write_home(home)
    first, second = open_again(), open_again()
    with first.exclusive(), pytest.raises(BusyError):
        Syncer(second, home).run(patience=0.0)
    assert Syncer(second, home).run(patience=0.0).new == 6


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("tables", [["places"], ["machine", "session"]], ids=["other tables", "the same names"])
def test_the_database_of_another_program_is_not_changed(tables: list[str], read_only: bool, tmp_path: Path) -> None:
    """A wrong path must not add tables to it, whether it is opened for reading or writing."""
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        for table in tables:
            connection.execute(f"CREATE TABLE {table} (a, b)")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(UnspoolError, match=r"other\.sqlite is the database of another program; choose another store"):
        open_store(str(path), read_only=read_only)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith("other")] == ["other.sqlite"]
