"""Maintenance while nothing happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unspool.ingest.idle_maintenance import IdleMaintenance
from unspool.store.maintenance import Maintenance

from ..store.contents import new_store


def test_maintenance_waits_until_it_is_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A little at a time, once; and again after a change."""
    now = 0.0
    done: list[float] = []

    def steps(_: Maintenance) -> Iterator[None]:
        nonlocal now
        for _number in range(3):
            done.append(now)
            now += 0.06
            yield

    monkeypatch.setattr(Maintenance, "steps", steps)
    store = new_store(tmp_path / "store.db")
    idle = IdleMaintenance(store, lambda: now)
    counts = []
    for moment in (0, 10, 30, 31, 32, 60):
        now = float(moment)
        idle.continue_briefly()
        counts.append(len(done))
    assert counts == [0, 0, 2, 3, 3, 3]
    store.changes.append("something", None)
    for moment in (70, 80, 100):
        now = float(moment)
        idle.continue_briefly()
        counts.append(len(done))
    assert counts[6:] == [3, 3, 5]
    store.close()
