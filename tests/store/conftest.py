"""Stores to test: one of each kind, empty."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unspool.store.backends.postgres import PostgresDatabase
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.store import Store

from . import server
from .contents import MACHINE, new_store

Open = Callable[..., Store]
"""Opens the store of a test, as often as one likes; takes a machine."""


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    if server.programs() is None:
        pytest.skip(server.MISSING)
    with server.running() as address:
        yield address


@pytest.fixture
def postgres_address(postgres_server: str) -> Iterator[str]:
    """An empty database."""
    name = f"test-{uuid.uuid4().hex}"
    yield server.new_database(postgres_server, name)
    server.drop_database(postgres_server, name)


@pytest.fixture(params=["sqlite", "postgres"])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same store: each time as another program would."""
    opened: list[Store] = []
    address = request.getfixturevalue("postgres_address") if request.param == "postgres" else ""

    def open(machine: tuple[str, str] = MACHINE) -> Store:
        if address:
            store: Store = Store(PostgresDatabase(address, machine=machine))
        elif not opened:
            store = new_store(tmp_path / "store.db", machine)
        else:
            store = Store(SqliteDatabase(tmp_path / "store.db", machine=machine))
        opened.append(store)
        return store

    yield open
    for store in opened:
        store.close()


@pytest.fixture
def store(open_again: Open) -> Store:
    """An empty store."""
    return open_again()
