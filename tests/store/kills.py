"""Syncing and being killed in the middle, again and again: `python -m tests.store.kills 200`."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from unspool.store.base import Store
from unspool.store.postgres import PostgresStore
from unspool.store.sqlite import SqliteStore

from . import server
from .contents import MACHINE, contents, difference, fresh, synced
from .homes import AGENTS, log_of, put

_TURNS = 60
_ROOT = Path(__file__).parents[2]
_SYNC = """
import sys
from pathlib import Path
from unspool.index import pipeline
from unspool.index.sync import Sync
from tests.store.kills import opened
pipeline._SECONDS = 0.0
store = opened(sys.argv[1])
print("begins", flush=True)
Sync(store, sys.argv[2]).run()
store.close()
"""
"""Each session is committed alone, so that there are more moments to be killed at."""


def opened(place: str) -> Store:
    """A store at a path or an address."""
    if "://" in place:
        return PostgresStore(place, machine=MACHINE)
    return SqliteStore(Path(place), machine=MACHINE)


def start_sync(place: str, home: Path) -> subprocess.Popen[bytes]:
    """A program that brings a store up to date; it says so when it begins."""
    command = [sys.executable, "-c", _SYNC, place, str(home)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=_ROOT)


def kill_often(place: str, folder: Path, kills: int, seed: int = 1) -> int:
    """Change files, sync, kill; in between and at the end nothing may be wrong. Returns how many runs that took."""
    chance = random.Random(seed)
    home = folder / "home"
    longest = _write(home, chance, 0)
    took = 0.5
    killed = number = 0
    while killed < kills:
        number += 1
        process = start_sync(place, home)
        assert process.stdout is not None
        process.stdout.readline()
        began = time.monotonic()
        try:
            process.wait(chance.uniform(0, took))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            killed += 1
        _, errors = process.communicate()
        if process.returncode == 0:
            took = max(0.05, min(took, time.monotonic() - began))
        assert process.returncode in (0, -signal.SIGKILL), errors.decode()
        if number % 4 == 0:
            _check(place, folder, home)
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
