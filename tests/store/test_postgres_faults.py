"""A server that fails at any statement, or is killed: the next run makes it good.

Each statement fails in turn, in each of these ways: all with `make faults`, some otherwise.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import cast

import psycopg
import pytest

from unspool.core.errors import UnspoolError
from unspool.ingest.sync import Syncer
from unspool.store.backends.postgres import PostgresDatabase
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.store import Store

from ..waiting import PATIENCE
from . import server
from .contents import MACHINE, contents, difference, new_store, on_disk, synced
from .statement_faults import (
    IS_WHOLE,
    Failing,
    KilledError,
    Situation,
    fail_at_every_statement,
    gone_in,
    push,
)

# The number of statements must be the same each time.
pytestmark = pytest.mark.usefixtures("no_commits_by_the_clock")
Fault = Callable[[Store], Callable[[], BaseException | None]]
KILLS = 24 if IS_WHOLE else 1
"""How often the server is killed by each of the tests that do so."""


def opened(address: str) -> Store:
    return Store(PostgresDatabase(address, machine=MACHINE))


def fails(error: type[psycopg.Error]) -> Fault:
    """The server refuses the statement."""
    return lambda store: lambda: cast("PostgresDatabase", store.database)._address.explained(error("it fails"))


def ends_connection(store: Store) -> Callable[[], None]:
    """The process of the server that serves this connection is ended."""
    ((process,),) = store.database.rows("SELECT pg_backend_pid()")

    def end() -> None:
        with psycopg.connect(store.location, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, %s)", [process, int(PATIENCE * 1000)])

    return end


FAULTS: dict[str, Fault] = {
    "killed": lambda _: KilledError,
    "terminated": ends_connection,
    "full": fails(psycopg.errors.DiskFull),
    "read-only": fails(psycopg.errors.ReadOnlySqlTransaction),
    "locked": fails(psycopg.errors.LockNotAvailable),
    "deadlock": fails(psycopg.errors.DeadlockDetected),
}


class ServerSituation(Situation):
    """With the earlier store on a server."""

    def __init__(self, folder: Path, address: str) -> None:
        self._address = address
        self._names: list[str] = []
        self._before = self._name()
        super().__init__(folder, opened(server.new_database(address, self._before)))

    def _name(self) -> str:
        self._names.append(f"faults-{uuid.uuid4().hex}")
        return self._names[-1]

    def copy(self) -> Store:
        """A copy of that store. Earlier copies are removed."""
        self.drop(1)
        return opened(server.new_database(self._address, self._name(), template=self._before))

    def new(self) -> Store:
        """An empty store."""
        self.drop(1)
        return opened(server.new_database(self._address, self._name()))

    def drop(self, left: int = 0) -> None:
        """Remove the databases."""
        while len(self._names) > left:
            server.drop_database(self._address, self._names.pop())


@pytest.fixture(scope="module")
def situation(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerSituation]:
    made = ServerSituation(tmp_path_factory.mktemp("situation"), postgres_server)
    yield made
    made.drop()


def fail_often(
    made: Callable[[], Store], work: Callable[[Store], object], check: Callable[[Store], None], fault: str, step: int
) -> int:
    """Let a store on a server fail at one of `step` statements, which are others for each fault, or at all of them."""
    first = list(FAULTS).index(fault) * step // len(FAULTS)
    numbers = count(1) if IS_WHOLE else count(1 + first, step)
    return fail_at_every_statement(made, lambda store: opened(store.location), work, check, FAULTS[fault], numbers)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_sync_that_fails_is_made_good_by_the_next(situation: ServerSituation, fault: str) -> None:
    """What is on disk is as in a new store; what is gone from it stays."""

    def check(store: Store) -> None:
        whole = contents(store, gone=True)
        assert difference(on_disk(store, whole), situation.expected) == ""
        assert len(gone_in(whole, situation.expected)) == 1

    def work(store: Store) -> None:
        Syncer(store, situation.home).run()

    assert fail_often(situation.copy, work, check, fault, 130) > 1


# --- a push ------------------------------------------------------------------------------------------------------


class Push:
    """The store of this computer, which has a session that is gone from the disk, and all that is pushed from it."""

    def __init__(self, folder: Path) -> None:
        situation = Situation(folder, new_store(folder / "source.db"))
        self.home = situation.home
        self.source = Store(SqliteDatabase(folder / "source.db", machine=MACHINE))
        synced(self.source, self.home)
        self.expected = contents(self.source, gone=True)

    def run(self, target: Store) -> None:
        """Copy everything."""
        push(self.source, target, self.home)

    def check(self, target: Store) -> None:
        """Whether the other store has all of it once."""
        assert difference(contents(target, gone=True), self.expected) == ""


@pytest.fixture(scope="module")
def pushing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Push]:
    made = Push(tmp_path_factory.mktemp("push"))
    yield made
    made.source.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_push_that_fails_is_made_good_by_the_next(situation: ServerSituation, pushing: Push, fault: str) -> None:
    """The other store gets everything once."""
    assert fail_often(situation.new, pushing.run, pushing.check, fault, 180) > 1


@pytest.mark.parametrize("seed", range(3))
def test_a_server_that_is_killed_during_a_push(pushing: Push, seed: int) -> None:
    """With all its processes, at statements that are drawn; it writes to the disk before it confirms anything."""
    if server.programs() is None:
        pytest.skip(server.MISSING)
    chance = random.Random(seed)
    with server.serving(is_durable=True) as postgres:
        counted = opened(server.new_database(postgres.address, "counted"))
        statements = Failing(counted.database, 0, KilledError)
        pushing.run(counted)
        counted.close()
        for number, at in enumerate(sorted(chance.sample(range(1, statements.count), KILLS))):
            target = opened(server.new_database(postgres.address, f"killed-{number}"))
            Failing(target.database, at, postgres.kill)
            with pytest.raises(UnspoolError, match=r"cannot be reached|ended the connection"):
                pushing.run(target)
            target.close()
            postgres.start()
            target = opened(target.location)
            pushing.run(target)
            pushing.check(target)
            target.close()


def test_a_confirmed_session_survives_the_server(pushing: Push) -> None:
    """What was committed before the server was killed does not have to be pushed again."""
    if server.programs() is None:
        pytest.skip(server.MISSING)
    with server.serving(is_durable=True) as postgres:
        target = opened(server.new_database(postgres.address, "pushed"))
        pushing.run(target)
        postgres.kill()
        target.close()
        postgres.start()
        target = opened(target.location)
        pushing.check(target)
        target.close()
