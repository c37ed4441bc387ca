"""What goes wrong in the middle leaves nothing half, and the next run makes it good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from unspool.core.errors import UnspoolError
from unspool.ingest.sync import Syncer
from unspool.store import locate as locate_store
from unspool.store.backends import sqlite
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.locate import machine_identity
from unspool.store.store import Store

from ..waiting import PATIENCE
from .contents import MACHINE, contents, difference, fresh, synced
from .homes import AGENTS, append, log_of, write_home
from .kills import Running, kill_often, opened
from .statement_faults import IS_WHOLE

KILLS = int(os.environ.get("UNSPOOL_TEST_KILLS", "26"))
SEEDS = 8 if IS_WHOLE else 2


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store is."""
    return request.getfixturevalue("postgres_address") if request.param == "postgres" else str(tmp_path / "store.db")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_killed_in_the_middle(place: str, tmp_path: Path, seed: int) -> None:
    """At moments that are drawn, again and again: a hundred times, and four hundred times by `make faults`."""
    kill_often(place, tmp_path, KILLS, seed)


def test_two_simultaneous_syncs_give_one_correct_store(place: str, tmp_path: Path) -> None:
    """The second waits for the first, and finds what it left."""
    home = tmp_path / "home"
    turns = 30
    for _ in range(3):
        write_home(home, turns)
        turns += 25
        runs = [Running(place, home) for _ in range(3)]
        for run in runs:
            assert run.ends()
        store = opened(place)
        report = synced(store, home)
        assert (report.new, report.changed) == (0, 0)
        assert difference(contents(store), fresh(tmp_path, home)) == ""
        store.close()


def test_many_processes_create_one_store(tmp_path: Path) -> None:
    """All find nothing and begin at the same moment; SQLite itself does not wait while the journal mode is changed."""
    everybody = threading.Barrier(8, timeout=PATIENCE)

    def make(path: Path) -> None:
        everybody.wait()
        Store(SqliteDatabase(path, machine=MACHINE)).close()

    with ThreadPoolExecutor(everybody.parties) as threads:
        for number in range(50):
            list(threads.map(make, [tmp_path / f"{number}.db"] * everybody.parties))


def test_a_killed_sync_releases_the_lock(place: str, tmp_path: Path) -> None:
    """What it held is let go of with it."""
    home = tmp_path / "home"
    write_home(home)
    store = opened(place)
    code = "import sys; from tests.store.kills import opened\nstore = opened(sys.argv[1])\nwith store.exclusive():\n"
    code += "    with store.transaction():\n        print('has it', flush=True); sys.stdin.read()"
    root = Path(__file__).parents[2]
    holder = subprocess.Popen(
        [sys.executable, "-c", code, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"has it\n"
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    synced(store, home)
    assert difference(contents(store), fresh(tmp_path, home)) == ""
    store.close()


def test_a_slow_writer_blocks_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than SQLite waits by itself: for the turn, for a transaction, and for a statement alone."""
    monkeypatch.setattr(sqlite, "_STEP_SECONDS", 0.0)
    first, second = (Store(SqliteDatabase(tmp_path / "store.db", machine=MACHINE)) for _ in range(2))
    held = ExitStack()
    refused: list[float] = []

    def pause(seconds: float) -> None:
        refused.append(seconds)
        if len(refused) == 3:
            held.close()

    monkeypatch.setattr(sqlite, "time", SimpleNamespace(sleep=pause, monotonic=time.monotonic))
    for hold, use in (
        (first.exclusive, second.exclusive),
        (first.transaction, second.transaction),
        (
            first.transaction,
            lambda: nullcontext(second.database.rows("INSERT INTO machine (key, name) VALUES ('k', 'n')")),
        ),
    ):
        refused.clear()
        held.enter_context(hold())
        with use():
            assert len(refused) == 3
    first.close()
    second.close()


# --- the key of a machine ---------------------------------------------------------------------------------------------


def test_simultaneous_programs_share_one_machine_id(tmp_path: Path) -> None:
    """At whatever line the first one is when the other starts."""
    lines = 0
    while keys := _keys_of_two(tmp_path / str(lines), lines):
        assert len(set(keys)) == 1, f"line {lines}"
        assert [path.name for path in (tmp_path / str(lines)).iterdir()] == ["machine"]
        lines += 1
    assert lines > 10


def _keys_of_two(folder: Path, lines: int) -> list[str]:
    """The keys that two programs get if the second starts after some lines of the first."""
    passed = 0
    keys: list[str] = []

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal passed
        if frame.f_code.co_filename != locate_store.__file__:
            return None
        if event == "line":
            passed += 1
            if passed == lines + 1:
                # What is called from here is not traced.
                keys.append(machine_identity(folder)[0])
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        key, _ = machine_identity(folder)
    finally:
        sys.settrace(before)
    return [*keys, key] if keys else []


def test_an_empty_machine_id_is_created_again(tmp_path: Path) -> None:
    """A program was killed before it had written it: from then on it stays the same."""
    (tmp_path / "machine").touch()
    assert machine_identity(tmp_path) == machine_identity(tmp_path)
    assert machine_identity(tmp_path)[0] == (tmp_path / "machine").read_text().strip()


# --- a full disk ------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Store]:
    """A store that has taken in something, and cannot grow any more."""
    write_home(tmp_path / "home")
    store = Store(SqliteDatabase(tmp_path / "store.db", machine=MACHINE))
    synced(store, tmp_path / "home")
    ((pages,),) = store.database.rows("PRAGMA page_count")
    store.database.rows(f"PRAGMA max_page_count = {pages}")
    yield store
    store.close()


def test_a_full_disk_is_reported_and_rolled_back(small: Store, tmp_path: Path) -> None:
    """The sessions are as they were; with more space, the next run takes in the rest."""
    home, before = tmp_path / "home", contents(small)
    for agent in AGENTS:
        log_of(agent, 400, "large").write(home)
    with pytest.raises(UnspoolError, match=r"cannot be written.*nothing is lost"):
        Syncer(small, home).run()
    assert difference(_without_new(small, before), before) == ""
    small.database.rows("PRAGMA max_page_count = 1000000")
    synced(small, home)
    assert difference(contents(small), fresh(tmp_path, home)) == ""


def test_a_full_disk_while_a_session_grows(small: Store, tmp_path: Path) -> None:
    """An existing session keeps its content."""
    home = tmp_path / "home"
    before = contents(small)
    for agent in AGENTS:
        path = log_of(agent).write(home)
        append(path, log_of(agent, 500).data[path.stat().st_size :])
    with pytest.raises(UnspoolError, match="free some disk space"):
        Syncer(small, home).run()
    assert difference(contents(small), before) == ""
    small.database.rows("PRAGMA max_page_count = 1000000")
    synced(small, home)
    assert difference(contents(small), fresh(tmp_path, home)) == ""


def _without_new(store: Store, before: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """What was there before; new sessions that fitted were committed each as a whole."""
    now = contents(store)
    return {kind: {name: entry for name, entry in now[kind].items() if name in before[kind]} for kind in now}
