"""Syncing and being killed in the middle, again and again: `python -m tests.store.kills 200`.

A program kills itself at a statement that was drawn beforehand: before it, after it, or while its rows are written.
That takes no longer than it has to, and a failure can be repeated.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

from unspool.ingest import transactions
from unspool.ingest.sync import Syncer
from unspool.store.backends.postgres import PostgresDatabase
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.database import Row
from unspool.store.store import Store

from ..waiting import PATIENCE
from . import server
from .contents import MACHINE, contents, difference, fresh, synced
from .homes import AGENTS, log_of, put
from .statement_faults import push

_TURNS = 9
"""A log gets up to 36, of four messages each: several blocks of messages."""
_MOMENTS = 800
"""About as many as a run has in the beginning."""
_PROGRAMS = multiprocessing.get_context("forkserver")
_PROGRAMS.set_forkserver_preload([__name__, "unspool.ingest.sync"])


def opened(place: str, machine: tuple[str, str] = MACHINE) -> Store:
    """A store at a path or an address."""
    if "://" in place:
        return Store(PostgresDatabase(place, machine=machine))
    return Store(SqliteDatabase(Path(place), machine=machine))


def starting_line(programs: int) -> Barrier:
    """Where programs wait until all of them are there."""
    return _PROGRAMS.Barrier(programs, timeout=PATIENCE)


class Running:
    """A program that brings a store up to date, and may be killed at a moment, counted from one.

    With a `source`, the store of a computer, it also copies what only that has.
    """

    def __init__(
        self,
        place: str,
        home: Path,
        moment: int = 0,
        *,
        machine: tuple[str, str] = MACHINE,
        source: Path | None = None,
        start: Barrier | None = None,
    ) -> None:
        # Forked from one that has imported everything, it begins at once.
        self._told, told = _PROGRAMS.Pipe(duplex=False)
        self._process = _PROGRAMS.Process(target=_sync, args=(place, home, moment, machine, source, start, told))
        self._process.start()
        told.close()

    def ends(self) -> int | None:
        """How many moments it had when it ended by itself; None when it was killed."""
        self._process.join(PATIENCE)
        code = self._process.exitcode
        assert code in (0, -signal.SIGKILL), f"it ended with {code}"
        moments = int(self._told.recv()) if code == 0 else None
        self._told.close()
        self._process.close()
        return moments


class Moments:
    """Counts what a store is asked to do, and kills the program at one of those moments."""

    def __init__(self, store: Store, killed_at: int) -> None:
        self.count = 0
        self._killed_at = killed_at
        database = store.database
        self._rows, self._insert = database.rows, database.insert
        database.rows, database.insert = self.rows, self.insert  # type: ignore[method-assign]

    def rows(self, sql: str, *values: object) -> list[Row]:
        self._pass()
        found = self._rows(sql, *values)
        self._pass()
        return found

    def insert(self, table: str, columns: str, rows: Iterable[Row], sparse: str = "") -> None:
        given = list(rows)
        self._pass()
        self._insert(table, columns, self._in_the_middle(given), sparse)
        self._pass()

    def _in_the_middle(self, rows: list[Row]) -> Iterator[Row]:
        half = len(rows) // 2
        return chain(rows[:half], self._nothing(), rows[half:])

    def _nothing(self) -> Iterator[Row]:
        self._pass()
        yield from ()

    def _pass(self) -> None:
        self.count += 1
        if self.count == self._killed_at:
            os.kill(os.getpid(), signal.SIGKILL)


def _sync(
    place: str,
    home: Path,
    moment: int,
    machine: tuple[str, str],
    source: Path | None,
    start: Barrier | None,
    told: Connection,
) -> None:
    # Each session is committed alone, so that there are more moments to be killed at.
    transactions._BATCH_SECONDS = 0.0
    if start is not None:
        start.wait()
    store = opened(place, machine)
    moments = Moments(store, moment)
    if source is None:
        Syncer(store, home).run()
    else:
        local = opened(str(source), machine)
        push(local, store, home)
        local.close()
    store.close()
    told.send(moments.count)


def kill_often(place: str, folder: Path, kills: int, seed: int = 1) -> int:
    """Change files, sync, kill; in between and at the end nothing may be wrong. Returns how many runs that took."""
    chance = random.Random(seed)
    home = folder / "home"
    longest = _write(home, chance, 0)
    killed = number = 0
    most = _MOMENTS
    while killed < kills:
        number += 1
        moments = Running(place, home, chance.randint(1, most)).ends()
        killed += moments is None
        # What is left to do was done: the next has more to do, but it should be killed.
        most = most if moments is None else max(20, min(most, moments))
        if number % 8 == 0:
            _check(place, folder, home)
        if number % 4 == 0:
            longest = _write(home, chance, longest)
            most = _MOMENTS
    _check(place, folder, home)
    return number


def _write(home: Path, chance: random.Random, turns: int) -> int:
    """Change all files: they grow or are rewritten, and others are added; they do not grow forever."""
    more = turns % (3 * _TURNS) + chance.randrange(5, _TURNS)
    for agent in AGENTS:
        for name in ("a", "b", "c", f"another {chance.randrange(5)}"):
            path = log_of(agent, more, name).write(home)
            if chance.random() < 0.2:
                put(path, path.read_bytes().replace(b"number", b"figure"))
    return more


def _check(place: str, folder: Path, home: Path) -> None:
    store = opened(place)
    try:
        synced(store, home)
        found = difference(contents(store), fresh(folder, home))
        assert found == "", found
        if isinstance(store.database, SqliteDatabase):
            assert store.database.rows("PRAGMA integrity_check") == [("ok",)]
            store.database.rows("INSERT INTO words (words) VALUES ('integrity-check')")
    finally:
        store.close()


def main() -> None:
    """As many kills as asked for, of each kind of store."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        runs = kill_often(str(Path(folder) / "store.db"), Path(folder), kills)
        print(f"SQLite: {kills} of {runs} runs killed in the middle, nothing lost")
    if server.programs() is None:
        print(server.MISSING)
        return
    with server.running() as address, tempfile.TemporaryDirectory() as folder:
        runs = kill_often(server.new_database(address, "kills"), Path(folder), kills)
        print(f"PostgreSQL: {kills} of {runs} runs killed in the middle, nothing lost")


if __name__ == "__main__":
    main()
