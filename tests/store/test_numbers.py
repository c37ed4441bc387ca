"""What the store counts is what the records hold: no event more, each token once, and every byte of the files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from unspool.core.events import count_events
from unspool.ingest.sync import Syncer
from unspool.store.filters import SessionFilter
from unspool.store.stats import compute_stats
from unspool.testing import Recording

from ..recordings import sampled_versions
from .contents import new_store

TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")


@pytest.mark.parametrize("group", sampled_versions(), ids=lambda group: f"{group[0].agent}-{group[0].version}")
def test_statistics_equal_those_of_the_records(group: list[Recording], tmp_path: Path) -> None:
    """Over all recordings of a version, each in a store of its own."""
    for number, recording in enumerate(group):
        store = new_store(tmp_path / f"{number}.db")
        assert Syncer(store, recording.home).run().failures == {}
        records = recording.sessions()
        told = compute_stats(store.database, SessionFilter())
        events = sum((Counter(count_events(record)) for record in records), Counter())
        assert told.events == dict(events), recording.name
        assert sum(told.sessions.values()) + told.subagents == len(records), recording.name
        for name in TOKENS:
            recorded = sum(getattr(record.info.usage, name) or 0 for record in records)
            assert sum(getattr(entry, name) for entry in told.tokens) == recorded, (recording.name, name)
        for path, row in store.files.all().items():
            assert b"".join(store.files.chunks(row.id)) == Path(path).read_bytes(), path
        store.close()
