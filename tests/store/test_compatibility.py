"""A store that an earlier version wrote opens and gives the same answers.

`fixtures/store-0.1.db` was written by version 0.1 from a home at `/home/dev/home`; `store-0.1.json` has the answers of
that version.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unspool.ingest.restore import restore_session
from unspool.ingest.verify import Verifier
from unspool.search.query import Filters, parse
from unspool.store import Store
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.filters import EventFilter, SessionFilter
from unspool.store.regex_search import search_regex
from unspool.store.stats import compute_stats

from .contents import new_store, synced

FIXTURES = Path(__file__).parent / "fixtures"
KINDS = (
    "rejection", "interruption", "compaction", "clear", "error", "orphan", "branch", "subagent", "resume", "problem",
    "rollback",
)  # fmt: skip
NOW = datetime(2026, 11, 16, tzinfo=UTC)
"""Ranking depends on the age of what is found."""


@pytest.fixture(params=["writable", "read-only", "verified"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A copy of the old store; a verified one has got checksums."""
    path = tmp_path / "old.db"
    shutil.copy(FIXTURES / "store-0.1.db", path)
    store = Store(SqliteDatabase(path, machine=("laptop", "laptop"), read_only=request.param == "read-only"))
    if request.param == "verified":
        assert Verifier(store).run().counts.sealed > 0
        again = Verifier(store).run()
        assert (again.counts.sealed, again.faults) == (0, [])
    yield store
    store.close()


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """What version 0.1 answered."""
    found: dict[str, Any] = json.loads((FIXTURES / "store-0.1.json").read_text())
    return found


def _digest(value: object) -> str:
    return hashlib.blake2b(msgspec.json.encode(value), digest_size=16).hexdigest()


def test_exports_are_the_same_byte_for_byte(old: Store, answers: dict[str, Any]) -> None:
    """All sessions exist, and no record differs."""
    found = {f"{row.agent} {row.name}": _digest(old.messages.load_session(row.id)) for row in old.sessions.select()}
    assert found == answers["exports"]


def test_searches_find_the_same(old: Store, answers: dict[str, Any]) -> None:
    """Sessions in the same order, with the same hits."""
    for query, expected in answers["search"].items():
        found = old.search.run(parse(query), now=NOW).found
        assert [
            [entry.session.name, entry.hits[0].message_index, len(entry.hits) + entry.more] for entry in found
        ] == expected, query


def test_events_statistics_and_changes_are_the_same(old: Store, answers: dict[str, Any]) -> None:
    """The tables beside the messages mean what they meant."""
    events = [row for kind in KINDS for row in old.events.select(EventFilter(kinds=(kind,)))]
    assert [[row.kind, row.session.name, row.message_index] for row in events] == answers["events"]
    stats = compute_stats(old.database, SessionFilter())
    # Earlier versions knew no prices.
    stats.tokens = [msgspec.structs.replace(entry, cost_usd=None) for entry in stats.tokens]
    assert _digest(stats) == answers["stats"]
    assert [[change.seq, change.kind] for change in old.changes.since()] == answers["changes"]


def test_corrections_of_messages_are_read(old: Store) -> None:
    """A message that was rewritten after its block had been stored has its new text, also for regular expressions."""
    assert [match.text.message for match in search_regex(old, r"The password \w+ cormorant", Filters())] == [1]
    assert list(search_regex(old, "kingfisher", Filters())) == []


def test_todays_writer_writes_the_same_messages(old: Store, tmp_path: Path) -> None:
    """The archived files, restored and read again, give the messages of the old store."""
    home = tmp_path / "home"
    rows = old.sessions.select()
    for row in rows:
        restore_session(old, row, home)
    new = new_store(tmp_path / "new.db")
    synced(new, home)
    for row in rows:
        (found,) = new.sessions.select(SessionFilter(agent=row.agent, name=row.name))
        assert new.messages.read(found.id) == old.messages.read(row.id), row.name
    new.close()
