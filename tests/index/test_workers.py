"""Other processes read the same as this one."""

from __future__ import annotations

from pathlib import Path

import pytest

import unspool
from unspool.index import sync as syncing
from unspool.index.sync import Sync
from unspool.index.workers import can_share
from unspool.store.sqlite import SqliteStore

from .test_live import equals_fresh


@pytest.mark.skipif(not can_share(), reason="needs fork and no other threads")
def test_shared_work_gives_the_same_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little there is to do."""
    monkeypatch.setattr(syncing, "WORTH_IT", 0)
    store = SqliteStore(tmp_path / "sessions.db", machine=("test", "test"))
    report = Sync(store, unspool.samples(), may_share=True).run()
    assert report.failures == {}
    assert equals_fresh(store, unspool.samples())
    assert Sync(store, unspool.samples(), may_share=True).run().new == 0


def test_one_process_gives_the_same_store(tmp_path: Path) -> None:
    """The way that works everywhere."""
    store = SqliteStore(tmp_path / "sessions.db", machine=("test", "test"))
    Sync(store, unspool.samples()).run()
    assert equals_fresh(store, unspool.samples())
