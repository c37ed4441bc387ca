"""A session that several homes have is stored once, from the copy that the agent continued last."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from unspool.ingest.restore import restore_session
from unspool.ingest.session import forget_session
from unspool.ingest.sync import Report, Syncer
from unspool.ingest.sync_selection import SyncSelection
from unspool.ingest.watch import Watcher
from unspool.store import Store
from unspool.store.rows import SessionRow

from ..file_faults import Call, FileFaults
from ..store.contents import contents, fresh, synced
from ..store.homes import AGENTS, log_of, put

TIME = 1_700_000_000


class Copy(NamedTuple):
    """A home, and the log of the only session in it."""

    home: Path
    log: Path


class Copies(NamedTuple):
    """Two homes with the same session of an agent."""

    agent: str
    one: Copy
    other: Copy

    def write(self, copy: Copy, turns: int) -> None:
        """Continue the session, or shorten it."""
        put(copy.log, log_of(self.agent, turns).data)


@pytest.fixture(params=AGENTS)
def copies(request: pytest.FixtureRequest, tmp_path: Path) -> Copies:
    """Copies of the same size and time."""
    paths = [log_of(request.param, 2).write(tmp_path / name) for name in ("one", "other")]
    for path in paths:
        os.utime(path, (TIME, TIME))
    return Copies(request.param, Copy(tmp_path / "one", paths[0]), Copy(tmp_path / "other", paths[1]))


def counts(report: Report) -> tuple[int, int, int]:
    """What a run changed."""
    return report.new, report.changed, report.gone


def only_session(store: Store) -> SessionRow:
    """The session in a store."""
    (row,) = store.sessions.select()
    return row


def is_stored_from(store: Store, copy: Copy, tmp_path: Path) -> bool:
    """Whether the session in a store is what a new store would have of this copy alone."""
    return bool(contents(store)["sessions"] == fresh(tmp_path, copy.home)["sessions"])


def test_a_session_is_read_once(store: Store, copies: Copies, tmp_path: Path) -> None:
    """The first of two equal copies is stored, and both are archived."""
    assert counts(synced(store, copies.one.home, copies.other.home)) == (1, 0, 0)
    assert is_stored_from(store, copies.one, tmp_path)
    assert store.files.all().keys() == {str(copies.one.log), str(copies.other.log)}


@pytest.mark.parametrize("is_alternating", [False, True])
def test_another_change_does_not_move_a_session(store: Store, copies: Copies, is_alternating: bool) -> None:
    """Whether the homes are synced together or in turn."""
    homes = copies.one.home, copies.other.home
    runs = [(home,) for home in homes] if is_alternating else [homes]

    def sync() -> int:
        return sum(sum(counts(synced(store, *places))) for places in runs)

    sync()
    for number, copy in enumerate((copies.other, copies.one, copies.other)):
        log_of(copies.agent, 1, f"new {number}").write(copy.home)
        # As a backup does that does not keep the times of files.
        os.utime(copy.log)
        assert sync() == 1
    assert sync() == 0


@pytest.mark.parametrize("is_alternating", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_the_copy_with_the_latest_message_counts(
    store: Store, copies: Copies, tmp_path: Path, is_first: bool, is_alternating: bool
) -> None:
    """Even if the file of the other one is newer."""
    newer, older = (copies.one, copies.other) if is_first else (copies.other, copies.one)
    copies.write(newer, 3)
    os.utime(older.log)
    homes = copies.one.home, copies.other.home
    for places in [(home,) for home in homes] if is_alternating else [homes]:
        synced(store, *places)
    assert is_stored_from(store, newer, tmp_path)


def test_copies_grow_in_turn(store: Store, copies: Copies, tmp_path: Path) -> None:
    """The session follows the copy that was continued last."""
    homes = copies.one.home, copies.other.home
    synced(store, *homes)
    for turns, copy in enumerate((copies.other, copies.one, copies.other), 3):
        copies.write(copy, turns)
        assert counts(synced(store, *homes)) == (0, 1, 0)
        assert is_stored_from(store, copy, tmp_path)
        assert counts(synced(store, *homes)) == (0, 0, 0)


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_copy_takes_over(store: Store, copies: Copies, tmp_path: Path, is_deleted: bool) -> None:
    """If the file that a session was read from is deleted or truncated, its copy is read, although it is unchanged."""
    homes = copies.one.home, copies.other.home
    synced(store, *homes)
    if is_deleted:
        copies.one.log.unlink()
    else:
        copies.write(copies.one, 1)
    assert counts(synced(store, *homes)) == (0, 1, 0)
    assert is_stored_from(store, copies.other, tmp_path)
    assert counts(synced(store, *homes)) == (0, 0, 0)
    ((restored, _, _),) = restore_session(store, only_session(store), tmp_path / "restored")
    assert restored.read_bytes() == copies.other.log.read_bytes()


def test_the_homes_are_synced_separately(store: Store, copies: Copies, tmp_path: Path) -> None:
    """A session is not gone while a copy exists, which the next sync of the other home reads."""
    for copy in (copies.one, copies.other):
        synced(store, copy.home)
    copies.one.log.unlink()
    assert counts(synced(store, copies.one.home)) == (0, 0, 0)
    assert only_session(store).gone_at is None
    assert counts(synced(store, copies.other.home)) == (0, 1, 0)
    assert is_stored_from(store, copies.other, tmp_path)
    copies.other.log.unlink()
    assert counts(synced(store, copies.other.home)) == (0, 0, 1)
    assert counts(synced(store, copies.one.home)) == (0, 0, 0)


def test_all_copies_are_deleted(store: Store, copies: Copies) -> None:
    """Only then is the session gone."""
    homes = copies.one.home, copies.other.home
    synced(store, *homes)
    for copy in (copies.one, copies.other):
        copy.log.unlink()
    assert counts(synced(store, *homes)) == (0, 0, 1)
    assert counts(synced(store, *homes)) == (0, 0, 0)


def test_the_stored_copy_cannot_be_read(store: Store, copies: Copies, tmp_path: Path) -> None:
    """An error is no reason to read another one."""
    copies.write(copies.one, 3)
    synced(store, copies.one.home)

    def fail(_: int, call: Call) -> None:
        if call == Call("open", copies.one.log):
            raise OSError(errno.EIO, "Input/output error", str(call.path))

    with FileFaults(copies.one.home, fail).active() as faults:
        synced(store, copies.other.home)
    assert faults.calls
    assert is_stored_from(store, copies.one, tmp_path)


def test_a_copy_is_not_followed(store: Store, copies: Copies, tmp_path: Path) -> None:
    """Lines that are appended to another copy are not appended to the stored session."""
    watcher = Watcher(store, copies.one.home, copies.other.home)
    watcher.read_all()
    for copy, turns in ((copies.one, 4), (copies.other, 3)):
        copies.write(copy, turns)
        watcher.ingest({copy.log})
    stored = only_session(store).messages
    synced(store, copies.one.home, copies.other.home)
    assert is_stored_from(store, copies.one, tmp_path)
    assert only_session(store).messages == stored


def test_a_limited_sync(store: Store, copies: Copies) -> None:
    """Copies do not count towards the limit."""
    log_of(copies.agent, 1, "another").write(copies.one.home)
    sync = Syncer(store, copies.one.home, copies.other.home, selection=SyncSelection(limit=1))
    assert [sync.run().new for _ in range(3)] == [1, 1, 0]


@pytest.mark.parametrize("until_seen_again", [False, True])
def test_forgetting_removes_all_copies(store: Store, copies: Copies, until_seen_again: bool) -> None:
    """Their bytes as well, and none of them is imported again."""
    homes = copies.one.home, copies.other.home
    synced(store, *homes)
    another = log_of(copies.agent, 1, "another").write(copies.other.home)
    synced(store, *homes)
    (row,) = (row for row in store.sessions.select() if store.files.of_session(row.id)[0].path == str(copies.one.log))
    with store.transaction():
        forget_session(store, row, until_seen_again=until_seen_again)
    assert list(store.files.all()) == [str(another)]
    assert counts(synced(store, *homes)) == (int(until_seen_again), 0, 0)
    assert len(store.files.all()) == (3 if until_seen_again else 1)
