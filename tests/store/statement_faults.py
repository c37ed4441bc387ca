"""Databases that fail at one statement, and what a store should hold after the next run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from unspool.core.errors import UnspoolError
from unspool.ingest.push import push_archived
from unspool.ingest.sync import Syncer
from unspool.store.database import Database, Row
from unspool.store.store import Store

from .contents import Contents, contents, fresh, synced
from .homes import AGENTS, log_of, put

IS_WHOLE = os.environ.get("UNSPOOL_TEST_FAULTS") == "0"
"""Whether every statement fails in turn, or only some."""


class KilledError(BaseException):
    """The program ends here: no handler sees it."""


class Failing:
    """Makes a database fail at one statement."""

    def __init__(self, database: Database, at: int, fault: Callable[[], BaseException | None]) -> None:
        """`fault` returns what is raised, or does something to the database that makes it fail."""
        self.count = 0
        self._at = at
        self._fault = fault
        self._rows, self._insert = database.rows, database.insert
        database.rows, database.insert = self.rows, self.insert  # type: ignore[method-assign]

    def rows(self, sql: str, *values: object) -> list[Row]:
        self._pass()
        return self._rows(sql, *values)

    def insert(self, table: str, columns: str, rows: Iterable[Row], sparse: str = "") -> None:
        given = list(rows)
        self._pass()
        self._insert(table, columns, given[: len(given) // 2], sparse)
        self._pass()
        self._insert(table, columns, given[len(given) // 2 :], sparse)

    def _pass(self) -> None:
        self.count += 1
        if self.count == self._at and (error := self._fault()) is not None:
            raise error


class Situation:
    """A home, a store from before it changed, and what the store should hold in the end."""

    def __init__(self, folder: Path, before: Store) -> None:
        self.folder = folder
        self.home = folder / "home"
        for agent in AGENTS:
            log_of(agent, 2).write(self.home)
            log_of(agent, 2, "left alone").write(self.home)
        gone = log_of("claude", 2, "gone").write(self.home)
        synced(before, self.home)
        gone.unlink()
        synced(before, self.home)
        self.before = contents(before, gone=True)
        before.database.optimize()
        before.close()
        for agent in AGENTS:
            path = log_of(agent, 3).write(self.home)
            log_of(agent, 1, "new").write(self.home)
        put(path, path.read_bytes().replace(b"number", b"figure"))
        self.expected = fresh(folder, self.home)


def gone_in(now: Contents, expected: Contents) -> set[str]:
    """The sessions that are not on disk."""
    return set(now["sessions"]) - set(expected["sessions"])


def push(source: Store, target: Store, home: Path) -> None:
    """Copy everything to another store, as the command does."""
    Syncer(target, home).run()
    push_archived(source, target)


def fail_at_every_statement(
    opened: Callable[[], Store],
    reopened: Callable[[Store], Store],
    work: Callable[[Store], object],
    check: Callable[[Store], None],
    fault: Callable[[Store], Callable[[], BaseException | None]],
    numbers: Iterable[int],
) -> int:
    """Do some work with a database that fails, then once more with one that does not; returns how often that was.

    `numbers` are those of the statements, until one is not reached.
    """
    runs = 0
    for at in numbers:
        store = opened()
        failing = Failing(store.database, at, fault(store))
        with suppress(KilledError, UnspoolError):
            work(store)
        store.close()
        if failing.count < at:
            break
        store = reopened(store)
        work(store)
        check(store)
        store.close()
        runs += 1
    return runs
