"""Sessions that are not imported again, in both kinds of store."""

from __future__ import annotations

from pathlib import Path

import zstandard

from unspool.ingest.push import push_archived
from unspool.ingest.session import forget_session
from unspool.ingest.store_repair import StoreRepair
from unspool.ingest.verify import Verifier
from unspool.store import Store
from unspool.store.compression import unpack

from ..agents.test_claude_inline_agents import session_with_agent
from .contents import contents, difference, fresh, new_store, synced
from .homes import log_of, put, write_home


def _forget(store: Store, name: str) -> None:
    row = store.sessions.find(name)
    with store.exclusive(), store.transaction():
        forget_session(store, row)


def test_forgotten_sessions_stay_away_until_that_is_lifted(store: Store, tmp_path: Path) -> None:
    """A second time, too; other sessions are not concerned."""
    home = tmp_path / "home"
    paths = write_home(home)
    synced(store, home)
    for _ in range(2):
        _forget(store, paths["claude"].stem)
        assert synced(store, home).new == 0
        assert len(store.sessions.select()) == 5
        (forgotten,) = store.forgotten.all()
        assert (forgotten.agent, forgotten.name, forgotten.paths) == (
            "claude",
            paths["claude"].stem,
            (str(paths["claude"]),),
        )
        store.forgotten.lift(forgotten)
        assert store.forgotten.all() == []
        assert synced(store, home).new == 1
    assert difference(contents(store), fresh(tmp_path, home)) == ""


def test_a_subagent_inside_a_file_can_be_forgotten(store: Store, tmp_path: Path) -> None:
    """The file is still archived, because its session needs it."""
    path = session_with_agent().write(tmp_path)
    synced(store, tmp_path)
    inner = [row for row in store.sessions.select() if row.kind == "subagent"]
    _forget(store, inner[0].name)
    put(path, path.read_bytes() + b"\n")
    synced(store, tmp_path)
    assert [row.name for row in store.sessions.select()] == [path.stem]
    assert store.files.at(str(path)) is not None


def test_a_store_is_verified_and_repaired(store: Store, tmp_path: Path) -> None:
    """Whatever holds it; and a session that is completed by a push is intact."""
    home = tmp_path / "home"
    log_of("claude", 30).write(home)
    own = new_store(tmp_path / "own.db")
    synced(store, home)
    path = log_of("claude", 40).write(home)
    synced(own, home)
    path.unlink()
    log_of("claude", 1, "another").write(home)
    synced(own, home)
    assert push_archived(own, store) == 1
    assert push_archived(own, store) == 0
    (row,) = [row for row in own.sessions.select() if row.gone_at is not None]
    assert store.sessions.find(row.name).messages == row.messages
    # What an earlier version stored has no checksum.
    for id, first, data in store.database.rows("SELECT session, first, data FROM block WHERE first > 0"):
        older = zstandard.compress(unpack(bytes(data)))
        store.database.rows("UPDATE block SET data = ? WHERE session = ? AND first = ?", older, id, first)
    store.database.rows("UPDATE block SET data = ? WHERE first = 0", b"damaged")
    store.database.rows("UPDATE chunk SET data = ? WHERE start = 0", b"damaged")
    found = Verifier(store).run()
    assert sorted(fault.part for fault in found.faults) == ["bytes", "messages"]
    assert found.counts.sealed > 0
    StoreRepair(store, home, other=own).run(found.faults)
    assert found.is_intact
    assert Verifier(store).run().faults == []
    own.close()
