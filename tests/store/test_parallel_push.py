"""Eight machines push to a team's store at the same time, and some are killed: it has all of everything, once."""

from __future__ import annotations

from pathlib import Path

from unspool.store.store import Store

from .contents import Contents, contents, difference, new_store, synced
from .homes import AGENTS, log_of, put
from .kills import Running, opened, starting_line

_KILLED_AT = {1: 30, 3: 90, 4: 150, 6: 210}
"""Machines that are killed while they push for the first time, and the moments of that."""
_KILLED_AGAIN_AT = {3: 60, 5: 20}
"""The same when they push what has changed."""


class _Machine:
    """A computer with its sessions: some are copies of those of all others, some its own."""

    def __init__(self, folder: Path, number: int) -> None:
        self.number = number
        self.identity = (f"key of machine {number}", f"machine {number}")
        self.home = folder / f"home{number}"
        self.source = folder / f"machine{number}.db"
        for agent in AGENTS:
            # The longer ones are copies that were continued.
            log_of(agent, 1 + number % 2, "everywhere").write(self.home)
        self.deleted = log_of(AGENTS[number % 3], 2, f"machine {number}").write(self.home)
        self.sync()

    def sync(self) -> Contents:
        """Bring its own store up to date; returns all that it has."""
        store = opened(str(self.source), self.identity) if self.source.exists() else self._new()
        try:
            synced(store, self.home)
            return contents(store, gone=True)
        finally:
            store.close()

    def _new(self) -> Store:
        return new_store(self.source, self.identity)

    def work(self) -> None:
        """Let sessions grow, rewrite one, delete one and start another."""
        for agent in AGENTS:
            log_of(agent, 3 + self.number % 2, "everywhere").write(self.home)
        rewritten = log_of("claude", 3, "everywhere").write(self.home)
        put(rewritten, rewritten.read_bytes().replace(b"number", f"{self.number} of".encode()))
        log_of(AGENTS[self.number % 3], 1, f"machine {self.number} later").write(self.home)
        self.deleted.unlink()


def _push(address: str, machines: list[_Machine], killed_at: dict[int, int]) -> None:
    """Push from all machines at once, from the last one twice; then again from those that were killed."""
    pushing = [*machines, machines[-1]]
    start = starting_line(len(pushing))
    running = [
        Running(address, one.home, killed_at.get(one.number, 0), machine=one.identity, source=one.source, start=start)
        for one in pushing
    ]
    ended = [program.ends() for program in running]
    assert {one.number for one, moments in zip(pushing, ended, strict=True) if moments is None} == killed_at.keys()
    again = [one for one in machines if one.number in killed_at]
    start = starting_line(len(again))
    running = [Running(address, one.home, machine=one.identity, source=one.source, start=start) for one in again]
    assert None not in [program.ends() for program in running]


def _check(address: str, machines: list[_Machine]) -> None:
    """The store is the union of all machines: the messages of sessions, and the bytes of files."""
    names = set()
    for machine in machines:
        expected = machine.sync()
        store = opened(address, machine.identity)
        try:
            assert difference(contents(store, gone=True), expected) == ""
            names |= {(machine.identity[1], *name.split(" ", 1)) for name in expected["sessions"]}
            stored = store.sessions.select()
            changes = store.database.rows("SELECT seq, session, kind FROM journal ORDER BY seq")
        finally:
            store.close()
    assert sorted(names) == sorted((row.machine, row.agent, row.name) for row in stored)
    created = [session for _, session, kind in changes if kind == "session.created"]
    assert sorted(created) == sorted(row.id for row in stored)


def test_eight_machines_push_at_once(postgres_address: str, tmp_path: Path) -> None:
    machines = [_Machine(tmp_path, number) for number in range(8)]
    _push(postgres_address, machines, _KILLED_AT)
    _check(postgres_address, machines)
    for machine in machines:
        machine.work()
        machine.sync()
    _push(postgres_address, machines, _KILLED_AGAIN_AT)
    _check(postgres_address, machines)
