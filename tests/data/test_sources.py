"""The sessions of a store as a source of tables, while others write to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unspool.core import model as m
from unspool.core.errors import BusyError, DamagedError, UnspoolError
from unspool.core.session import Session
from unspool.data.sources import Stored, Unreadable
from unspool.store import Store
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.testing import ClaudeLog

from ..store.contents import MACHINE, new_store, synced


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with three sessions."""
    for name in ("one", "two", "three"):
        log = ClaudeLog(name)
        log.user("a prompt")
        log.write(tmp_path / "home")
    opened = new_store(tmp_path / "sessions.db")
    synced(opened, tmp_path / "home")
    yield opened
    opened.close()


def test_a_session_that_is_forgotten_while_others_are_read(store: Store) -> None:
    """It is not a session that cannot be read."""
    readings = Stored(store).readings()
    first = next(readings)
    assert not isinstance(first, Unreadable)
    last = store.sessions.select()[-1]
    with store.transaction():
        store.sessions.delete(last.id)
    (second,) = readings
    assert not isinstance(second, Unreadable)
    assert {first.head.info.id, second.head.info.id} == {row.name for row in store.sessions.select()}


def failing_with(error: Exception, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the second session fail."""
    bad = store.sessions.select()[1].id
    load = store.messages.load_session

    def fail(id: int) -> Session:
        if id == bad:
            raise error
        return load(id)

    monkeypatch.setattr(store.messages, "load_session", fail)


def test_a_store_that_cannot_be_read_now(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is not a property of the session: it would be missing in the answer."""
    failing_with(BusyError("locked"), store, monkeypatch)
    with pytest.raises(BusyError):
        list(Stored(store).readings())


def test_a_lost_connection(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """All other sessions would seem unreadable, too."""
    failing_with(UnspoolError("the server closed the connection"), store, monkeypatch)
    monkeypatch.setattr(type(store.database), "is_lost", True)
    with pytest.raises(UnspoolError, match="closed the connection"):
        list(Stored(store).readings())


def test_a_damaged_session_costs_no_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_with(DamagedError("damaged"), store, monkeypatch)
    found = list(Stored(store).readings())
    assert [isinstance(reading, Unreadable) for reading in found] == [False, True, False]


def test_a_session_is_read_in_one_state(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record and its messages are stored separately, and another process may replace both in between."""
    log = ClaudeLog("one")
    log.user("a prompt")
    log.user("another prompt", name="another")
    log.write(tmp_path / "home")
    (id,) = (row.id for row in store.sessions.select() if row.name == log.session)
    before = store.messages.load_session(id)
    read = store.messages.read

    def read_later(id: int) -> list[m.Message]:
        other = Store(SqliteDatabase(tmp_path / "sessions.db", machine=MACHINE))
        synced(other, tmp_path / "home")
        other.close()
        return read(id)

    monkeypatch.setattr(store.messages, "read", read_later)
    (found,) = Stored(store, [id]).readings()
    assert not isinstance(found, Unreadable)
    assert found.head == before
    assert len(read(id)) == 2
