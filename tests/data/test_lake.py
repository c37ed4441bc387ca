"""The lake: incremental, consistent, and the same rows as everywhere else. Parquet folders, too."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow.fs import PyFileSystem

import unspool
from unspool.cli.main import main
from unspool.core.errors import BusyError, UnspoolError, UsageError
from unspool.data.lake import Lake, LakeReport
from unspool.data.parquet import ParquetFolder
from unspool.data.schema import TABLES, arrow_schema
from unspool.data.sql import run_on_lake
from unspool.data.tables import tables
from unspool.redact import PersonalData, Redactor
from unspool.store import Store
from unspool.testing import ClaudeLog

from ..store.contents import new_store, synced


@pytest.fixture(scope="module")
def home() -> Path:
    """Sessions."""
    return unspool.samples()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[Store]:
    """A store of them; not to be changed."""
    opened = new_store(tmp_path_factory.mktemp("store") / "sessions.db")
    synced(opened, home)
    yield opened
    opened.close()


def rows_of(table: pa.Table) -> list[str]:
    """Rows in an order of their own, whatever the order of the columns."""
    return sorted(repr(sorted(row.items())) for row in table.to_pylist())


def contents(lake: Lake) -> dict[str, list[str]]:
    """Everything in a lake."""
    return {name: rows_of(dataset.to_table()) for name, dataset in lake.datasets().items()}


def expected_of(store: Store) -> dict[str, list[str]]:
    """Everything in a store."""
    made: dict[str, list[pa.RecordBatch]] = {name: [] for name in TABLES}
    # All tables at once: for each of them, all sessions would be read again.
    for name, batch in tables(store).batches():
        made[name].append(batch)
    return {name: rows_of(pa.Table.from_batches(batches, arrow_schema(name))) for name, batches in made.items()}


def test_a_lake_has_the_tables_of_the_store(tmp_path: Path, store: Store) -> None:
    """A second sync adds nothing."""
    lake = Lake(str(tmp_path / "lake"))
    count = store.sessions.count()
    assert lake.sync(store) == LakeReport(count, 0, 0, 0, 2)
    assert contents(lake) == expected_of(store)
    files = sorted(path for path in (tmp_path / "lake").rglob("*") if path.is_file())
    assert lake.sync(store) == LakeReport(0, 0, 0, count, 2)
    assert sorted(path for path in (tmp_path / "lake").rglob("*") if path.is_file()) == files


def test_changed_and_forgotten_sessions(tmp_path: Path) -> None:
    """One is replaced, the other removed; earlier snapshots stay."""
    home, store = tmp_path / "home", new_store(tmp_path / "sessions.db")
    shutil.copytree(unspool.samples(), home)
    synced(store, home)
    lake = Lake(str(tmp_path / "lake"))
    lake.sync(store)
    before = contents(lake)
    log = max(home.glob(".claude/projects/*/*.jsonl"), key=lambda path: path.stat().st_size)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-3]))
    synced(store, home)
    forgotten = next(row for row in store.sessions.select() if row.agent == "gemini")
    with store.transaction():
        store.sessions.delete(forgotten.id)
    report = lake.sync(store)
    assert (report.added, report.removed) == (0, 1)
    assert report.replaced >= 1
    assert contents(lake) == expected_of(store)
    assert contents(Lake(lake.location, as_of=2)) == before
    store.close()


def test_an_interrupted_sync(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever write fails: readers see the last snapshot, and the next sync completes the work."""
    lake = Lake(str(tmp_path / "lake"))
    lake._prepare()
    empty = contents(lake)
    write = Lake._append
    for failing in ("messages", "sessions", "fingerprints", "snapshots"):

        def append(self: Lake, name: str, table: Any, failing: str = failing) -> None:
            if name == failing:
                raise UnspoolError("disk full")
            write(self, name, table)

        monkeypatch.setattr(Lake, "_append", append)
        with pytest.raises(UnspoolError, match="disk full"):
            Lake(lake.location).sync(store)
        monkeypatch.setattr(Lake, "_append", write)
        assert contents(lake) == empty
    lake.sync(store)
    assert contents(lake) == expected_of(store)


def write_session(home: Path, name: str, prompts: int = 1) -> None:
    """A session with as many messages."""
    log = ClaudeLog(name)
    for number in range(prompts):
        log.user(f"prompt {number}", name=f"{name} {number}")
    log.write(home)


def after_append(monkeypatch: pytest.MonkeyPatch, table: str, action: Callable[[], object]) -> None:
    """Do something once, when a sync has written to a table."""
    write = Lake._append

    def append(self: Lake, name: str, rows: pa.Table) -> None:
        write(self, name, rows)
        if name == table:
            monkeypatch.setattr(Lake, "_append", write)
            action()

    monkeypatch.setattr(Lake, "_append", append)


@pytest.mark.parametrize("table", ["sessions", "messages", "fingerprints", "snapshots"])
def test_two_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """Whenever the second one comes, no row is lost or written twice. The first one fails unless it was done."""
    home, store = tmp_path / "home", new_store(tmp_path / "sessions.db")
    lake = Lake(str(tmp_path / "lake"))
    lake._prepare()
    write_session(home, "first", 3)
    synced(store, home)
    after_append(monkeypatch, table, lambda: Lake(lake.location).sync(store))
    is_busy = pytest.raises(BusyError, match="another process has written to the lake")
    with is_busy if table != "snapshots" else nullcontext():
        lake.sync(store)
    assert contents(lake) == expected_of(store)
    write_session(home, "second")
    synced(store, home)
    assert lake.sync(store)[:4] == (1, 0, 0, 1)
    assert contents(lake) == expected_of(store)
    store.close()


def test_two_writers_that_create_a_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one fails and says why, and nothing of the first one is lost."""
    home, store = tmp_path / "home", new_store(tmp_path / "sessions.db")
    write_session(home, "first", 3)
    synced(store, home)
    lake = Lake(str(tmp_path / "lake"))
    create = Lake._create

    def create_second(self: Lake) -> None:
        monkeypatch.setattr(Lake, "_create", create)
        Lake(lake.location).sync(store)
        create(self)

    monkeypatch.setattr(Lake, "_create", create_second)
    with pytest.raises(BusyError, match="another process has created the lake at"):
        lake.sync(store)
    assert contents(lake) == expected_of(store)
    assert lake.sync(store)[:4] == (0, 0, 0, 1)
    assert contents(lake) == expected_of(store)
    store.close()


def test_a_writer_whose_tables_were_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not publish a snapshot of rows that another writer has removed."""
    home, store = tmp_path / "home", new_store(tmp_path / "sessions.db")
    lake = Lake(str(tmp_path / "lake"))
    write_session(home, "first", 3)
    synced(store, home)
    lake._prepare()
    after_append(monkeypatch, "messages", lambda: Lake(lake.location)._prepare())
    lake.sync(store)
    assert contents(lake) == expected_of(store)
    store.close()


def test_a_session_that_changes_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next sync writes it again."""
    home, store = tmp_path / "home", new_store(tmp_path / "sessions.db")
    lake = Lake(str(tmp_path / "lake"))
    write_session(home, "first", 1)
    synced(store, home)

    def grow() -> None:
        write_session(home, "first", 2)
        synced(store, home)

    after_append(monkeypatch, "messages", grow)
    lake.sync(store)
    assert lake.sync(store).replaced == 1
    assert contents(lake) == expected_of(store)
    assert lake.sync(store).unchanged == 1
    store.close()


def test_a_session_that_was_damaged_in_the_store(tmp_path: Path) -> None:
    """It is written again, because a repair restores the record that the fingerprint was made of."""
    home, store = tmp_path / "home", new_store(tmp_path / "sessions.db")
    lake = Lake(str(tmp_path / "lake"))
    write_session(home, "first", 2)
    synced(store, home)
    ((data,),) = store.database.rows("SELECT data FROM block")
    store.database.rows("UPDATE block SET data = ?", b"damaged")
    lake.sync(store)
    assert contents(lake)["problems"]
    store.database.rows("UPDATE block SET data = ?", data)
    assert lake.sync(store).replaced == 1
    assert contents(lake) == expected_of(store)
    assert lake.sync(store).unchanged == 1
    store.close()


def test_many_forgotten_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions are of limited length: Delta ends the process if one is too long."""
    home, store = tmp_path / "home", new_store(tmp_path / "sessions.db")
    for number in range(5):
        write_session(home, f"session {number}")
    synced(store, home)
    lake = Lake(str(tmp_path / "lake"))
    lake.sync(store)
    with store.transaction():
        for row in store.sessions.select():
            store.sessions.delete(row.id)
    monkeypatch.setattr("unspool.data.lake._REMOVED_AT_ONCE", 2)
    conditions: list[str] = []
    delete = DeltaTable.delete

    def note(self: DeltaTable, predicate: str, **more: Any) -> object:
        conditions.append(predicate)
        return delete(self, predicate, **more)

    monkeypatch.setattr(DeltaTable, "delete", note)
    assert lake.sync(store).removed == 5
    assert {len(re.findall("'[^']{36}'", condition)) for condition in conditions} == {1, 2}
    assert not any(contents(lake).values())
    store.close()


def test_a_sync_lists_each_session_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many batches there are."""
    home, store = tmp_path / "home", new_store(tmp_path / "sessions.db")
    for number in range(12):
        write_session(home, f"session {number}")
    synced(store, home)
    monkeypatch.setattr("unspool.data.lake._BATCH_SESSIONS", 2)
    listed: list[int] = []
    select = store.sessions.select

    def count(*given: Any, **more: Any) -> list[Any]:
        found = select(*given, **more)
        listed.append(len(found))
        return found

    monkeypatch.setattr(store.sessions, "select", count)
    assert Lake(str(tmp_path / "lake")).sync(store).added == 12
    assert listed == [12, *[2] * 6]
    store.close()


def test_old_snapshots_stay_readable(tmp_path: Path) -> None:
    """Delta removes the log of versions that are older than a month."""
    home, store = tmp_path / "home", new_store(tmp_path / "sessions.db")
    lake = Lake(str(tmp_path / "lake"))
    for number in range(2):
        write_session(home, f"session {number}")
        synced(store, home)
        lake.sync(store)
    for path in (tmp_path / "lake").glob("*/_delta_log/*"):
        os.utime(path, (0, 0))
    for name in TABLES:
        table = lake._table(name)
        table.create_checkpoint()
        table.cleanup_metadata()
    assert len(contents(Lake(lake.location, as_of=2))["sessions"]) == 1
    store.close()


def test_wrong_snapshots_and_versions(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(str(tmp_path / "lake"))
    lake.sync(store)
    with pytest.raises(unspool.UsageError, match="has no snapshot 9; it has 1 to 2"):
        Lake(lake.location, as_of=9).dataset("messages")
    monkeypatch.setattr("unspool.data.lake.TABLES_SCHEMA", "unspool-tables/2")
    with pytest.raises(UnspoolError, match=r"has tables of unspool-tables/1, but this version writes unspool-tables/2"):
        lake.sync(store)


def test_a_query_can_list_the_snapshots(tmp_path: Path, store: Store) -> None:
    """All of them, also if it reads an earlier one."""
    lake = Lake(str(tmp_path / "lake"))
    lake.sync(store)
    query = "SELECT DISTINCT snapshot FROM snapshots JOIN sessions ON true ORDER BY snapshot"
    assert run_on_lake(lake, query).read_all().to_pydict() == {"snapshot": [1, 2]}
    query = "SELECT count(DISTINCT snapshot) AS n FROM snapshots"
    assert run_on_lake(Lake(lake.location, as_of=1), query).read_all().to_pydict() == {"n": [2]}


@pytest.mark.parametrize("name", ["a%20b", "a[b", "a]b", "a^b", "a|b", "a\nb"])
def test_directories_that_delta_cannot_use(tmp_path: Path, name: str) -> None:
    """It would write to another directory, or end the process."""
    with pytest.raises(UsageError, match="Delta Lake cannot use a directory with") as raised:
        Lake(str(tmp_path / name))
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a b", "100%", "a%b", "agent=x", "it's", "a#b?c", "ä"])
def test_directories_with_unusual_names(tmp_path: Path, store: Store, name: str) -> None:
    lake = Lake(str(tmp_path / name))
    lake.sync(store)
    assert run_on_lake(lake, "SELECT count(*) AS n FROM sessions").read_all()["n"].to_pylist() == [
        store.sessions.count()
    ]
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert all(Path(path).is_file() for path in lake.files("messages"))


def test_a_lake_is_not_a_home(tmp_path: Path, store: Store) -> None:
    """And not the current directory by mistake."""
    Lake(str(tmp_path / "lake")).sync(store)
    with pytest.raises(UsageError, match="lake is a lake; query it with `unspool sql --lake`"):
        tables(tmp_path / "lake")
    with pytest.raises(UsageError, match="name the directory of the lake"):
        Lake("")


def test_a_directory_that_cannot_be_written(tmp_path: Path, store: Store) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnspoolError, match=r"the lake at .*file cannot be written: ") as raised:
        Lake(str(tmp_path / "file")).sync(store)
    assert "\n" not in str(raised.value)


def test_local_files_are_read_without_python(tmp_path: Path, store: Store) -> None:
    """A thread of Arrow that calls Python while Python exits ends the process with an error."""
    lake = Lake(str(tmp_path / "lake"))
    lake.sync(store)
    files = lake.dataset("messages").filesystem
    assert not isinstance(files.base_fs, PyFileSystem)


# --- Parquet ----------------------------------------------------------------------------------------------------------


def test_parquet_has_the_same_rows(tmp_path: Path, home: Path) -> None:
    """In partitions that any reader knows."""
    import pyarrow.dataset as ds  # Imports pandas, too: not while the tests are collected.

    folder = tmp_path / "tables"
    assert main(["export", "--home", str(home), "--format", "parquet", "-o", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(TABLES)
    expected = tables(home)
    for name in TABLES:
        found = duckdb.sql(f"SELECT * FROM read_parquet('{folder}/{name}/**/*.parquet', hive_partitioning = true)")
        assert found is not None
        assert set(found.columns) == set(TABLES[name].names)
        assert found.count("*").fetchall()[0][0] == expected.to_arrow(name).num_rows
    part = ds.dataset(folder / "messages", partitioning="hive").to_table(filter=ds.field("agent") == "codex")
    assert part.num_rows == sum(row == "codex" for row in expected.to_arrow("messages")["agent"].to_pylist())


@pytest.mark.parametrize("has_session", [False, True])
def test_parquet_without_days_can_be_read(tmp_path: Path, has_session: bool) -> None:
    """An empty table, and one in which no session has a time."""
    import pyarrow.dataset as ds

    home, folder = tmp_path / "home", tmp_path / "tables"
    home.mkdir()
    if has_session:
        log = ClaudeLog("without time")
        log.user("hello", timestamp=None)
        log.write(home)
    assert main(["export", "--home", str(home), "--format", "parquet", "-o", str(folder)]) == 0
    for name in TABLES:
        found = ds.dataset(folder / name, partitioning="hive").to_table()
        assert set(found.column_names) == set(TABLES[name].names)
        if name in ("sessions", "messages"):
            assert found["day"].to_pylist() == [None] * has_session


class _Waiting(ParquetFolder):
    """Notes how much is waiting when a table is written."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.most = 0

    def _write(self, name: str) -> None:
        self.most = max(self.most, sum(batch.nbytes for batches in self._pending.values() for batch in batches))
        super()._write(name)


def test_what_waits_to_be_written_is_limited(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all tables together: there are many."""
    import pyarrow.dataset as ds

    batches = [(name, batch) for name, batch in tables(home).batches() for _ in range(20)]
    largest = max(batch.nbytes for _, batch in batches)
    monkeypatch.setattr("unspool.data.parquet._PENDING_BYTES", largest)
    made = tables(home)
    monkeypatch.setattr(made, "batches", lambda: iter(batches))
    folder = _Waiting(tmp_path / "tables")
    folder.write(made)
    assert largest < folder.most <= 2 * largest
    rows = sum(batch.num_rows for name, batch in batches if name == "messages")
    assert ds.dataset(tmp_path / "tables" / "messages", partitioning="hive").count_rows() == rows


_POOL = """
import sys
from unspool.cli.main import main
assert main(sys.argv[1:]) == 0
import pyarrow
print(pyarrow.default_memory_pool().backend_name)
"""


@pytest.mark.parametrize("chosen", [None, "mimalloc"])
def test_arrow_returns_what_is_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str | None) -> None:
    """Unless the user has chosen another allocator."""
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    if chosen is not None:
        monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", chosen)
    (tmp_path / "home").mkdir()
    log = ClaudeLog("small")
    log.user("hello")
    log.write(tmp_path / "home")
    arguments = ["export", "--home", str(tmp_path / "home"), "--format", "parquet", "-o", str(tmp_path / "tables")]
    command = [sys.executable, "-c", _POOL, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == (chosen or "system")


def test_parquet_needs_a_new_directory(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["export", "--home", str(home), "--format", "parquet"]
    assert main(command) == 2
    assert "name it with -o DIR/" in capsys.readouterr().err
    assert main(["export", "--home", str(tmp_path / "missing"), *command[3:], "-o", str(tmp_path / "new")]) == 1
    assert "no such file or directory" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    assert main([*command, "-o", ""]) == 2
    assert "name it with -o DIR/" in capsys.readouterr().err
    (tmp_path / "messages").mkdir()
    assert main([*command, "-o", str(tmp_path)]) == 2
    assert "already has the table 'messages'" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main([*command, "-o", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err == f"unspool: {tmp_path / 'file'}: Not a directory\n"


# --- without secrets -------------------------------------------------------------------------------------------------


def test_a_query_sees_one_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the lake is written after its first table was opened."""
    home = tmp_path / "home"
    store = new_store(tmp_path / "sessions.db")
    lake = Lake(str(tmp_path / "lake"))

    def write(name: str) -> None:
        log = ClaudeLog(name)
        log.user("a prompt")
        log.write(home)
        synced(store, home)
        Lake(lake.location).sync(store)

    write("first")
    opened = lake._table
    tables_opened: list[str] = []

    def open_slowly(name: str, version: int | None = None) -> Any:
        table = opened(name, version)
        if version is not None:
            tables_opened.append(name)
            if len(tables_opened) == 1:
                write("second")
        return table

    monkeypatch.setattr(lake, "_table", open_slowly)
    query = "SELECT (SELECT count(*) FROM sessions), (SELECT count(DISTINCT session) FROM messages)"
    assert [tuple(row.values()) for row in run_on_lake(lake, query).read_all().to_pylist()] == [(1, 1)]
    assert sorted(tables_opened) == ["messages", "sessions"]
    store.close()


def test_a_lake_is_with_secrets_or_without(tmp_path: Path, store: Store) -> None:
    """It keeps what was written before, so that one kind cannot become the other."""
    complete, redacted = Lake(str(tmp_path / "complete")), Lake(str(tmp_path / "redacted"))
    complete.sync(store)
    count = store.sessions.count()
    assert redacted.sync(store, Redactor(b"key" * 8)).added == count
    assert redacted.sync(store, Redactor(b"key" * 8)).unchanged == count
    with pytest.raises(UsageError, match="earlier snapshots"):
        complete.sync(store, Redactor(b"key" * 8))
    with pytest.raises(UsageError, match="add --redact"):
        redacted.sync(store)
    # Other options take out more: everything is written again.
    assert redacted.sync(store, Redactor(b"key" * 8, personal=PersonalData())).replaced == count


def test_answers_of_queries_are_redacted_before_they_are_computed(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    """A lake has to be written without secrets."""
    query = "select substr(title, 1, 3) as part from sessions limit 1"
    assert main(["sql", "--redact", "--home", str(home), "--json", query]) == 0
    assert "part" in capsys.readouterr().out
    assert main(["sql", "--redact", "--lake", "lake", query]) == 2
    assert "lake sync DIR --redact" in capsys.readouterr().err
