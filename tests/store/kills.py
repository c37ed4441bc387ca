"""Syncing and being killed in the middle, again and again: `python -m tests.store.kills 200`."""

from __future__ import annotations

import multiprocessing
import random
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from unspool.index import pipeline
from unspool.index.sync import Sync
from unspool.store.base import Store
from unspool.store.postgres import PostgresStore
from unspool.store.sqlite import SqliteStore

from . import server
from .contents import MACHINE, contents, difference, fresh, synced
from .homes import AGENTS, log_of, put

_TURNS = 60
_PROGRAMS = multiprocessing.get_context("forkserver")
_PROGRAMS.set_forkserver_preload([__name__, "unspool.index.sync"])


def opened(place: str) -> Store:
    """A store at a path or an address."""
    if "://" in place:
        return PostgresStore(place, machine=MACHINE)
    return SqliteStore(Path(place), machine=MACHINE)


class Running:
    """A program that brings a store up to date; it says so when it begins."""

    def __init__(self, place: str, home: Path) -> None:
        # Forked from one that has imported everything, it begins at once.
        self._began, begins = _PROGRAMS.Pipe(duplex=False)
        self._process = _PROGRAMS.Process(target=_sync, args=(place, home, begins))
        self._process.start()
        begins.close()

    def wait_until_it_begins(self) -> None:
        """Until the store is open."""
        self._began.recv()

    def ends(self, seconds: float | None = None) -> bool:
        """It ended by itself, and well, before the time was over."""
        self._process.join(seconds)
        code = self._process.exitcode
        assert code in (0, None), f"it ended with {code}"
        return code == 0

    def kill(self) -> None:
        """At once."""
        self._process.kill()
        self._process.join()

    def close(self) -> None:
        """Forget it."""
        self._began.close()
        self._process.close()


def _sync(place: str, home: Path, begins: Connection) -> None:
    # Each session is committed alone, so that there are more moments to be killed at.
    pipeline._SECONDS = 0.0
    store = opened(place)
    begins.send("begins")
    Sync(store, home).run()
    store.close()


def kill_often(place: str, folder: Path, kills: int, seed: int = 1) -> int:
    """Change files, sync, kill; in between and at the end nothing may be wrong. Returns how many runs that took."""
    chance = random.Random(seed)
    home = folder / "home"
    longest = _write(home, chance, 0)
    took = 0.5
    killed = number = 0
    while killed < kills:
        number += 1
        run = Running(place, home)
        run.wait_until_it_begins()
        began = time.monotonic()
        if run.ends(chance.uniform(0, took)):
            took = max(0.05, min(took, time.monotonic() - began))
        else:
            run.kill()
            killed += 1
        run.close()
        if number % 8 == 0:
            _check(place, folder, home)
        if number % 4 == 0:
            longest = _write(home, chance, longest)
    _check(place, folder, home)
    return number


def _write(home: Path, chance: random.Random, turns: int) -> int:
    """Change all files: they grow, or are written anew, and others come; they do not grow for ever."""
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
        if isinstance(store, SqliteStore):
            assert store.rows("PRAGMA integrity_check") == [("ok",)]
            store.rows("INSERT INTO words (words) VALUES ('integrity-check')")
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
