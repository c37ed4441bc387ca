"""No page contradicts the record: every page of every branch of every recorded session."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from unspool.core import model as m
from unspool.core.session import Session
from unspool.store import Store
from unspool.web.session_query import SessionQuery

from ..recordings import sampled_versions
from ..store.contents import new_store, synced
from .conftest import put_together, session_rows
from .contradictions import contradictions

VERSIONS = {
    f"{found[0].agent}-{found[0].version}": [recording.home for recording in found] for found in sampled_versions()
}


def found_in(store: Store) -> list[str]:
    """The contradictions in all sessions of a store."""
    found = []
    for row in store.sessions.select():
        query, session = SessionQuery(store, row), store.messages.load_session(row.id)
        found += [f"{row.name}: {words}" for words in contradictions(store, query, session)]
    return found


@pytest.mark.parametrize("homes", VERSIONS.values(), ids=VERSIONS)
def test_no_page_contradicts_the_record(homes: list[Path], tmp_path: Path) -> None:
    """Calls, rejections, messages, failures, marks, badges, banners and contexts are those of the record."""
    with closing(new_store(tmp_path / "sessions.db")) as store:
        synced(store, put_together(homes, tmp_path / "home"))
        assert store.sessions.select()
        assert found_in(store) == []


def _changed(session: Session, **changes: object) -> Session:
    return msgspec.structs.replace(session, **changes)


def test_contradictions_are_found(store: Store) -> None:
    """A record with anything else in it is not what the pages show."""
    rows = session_rows(store)

    def says(count: str, **changes: object) -> str:
        row = next(row for row in rows if row.counts.get(count))
        session = store.messages.load_session(row.id)
        return "\n".join(contradictions(store, SessionQuery(store, row), _changed(session, **changes)))

    assert "unfinished is True" in says("orphan", orphans=[])
    assert "its rejection differs" in says("rejection", rejections=[])
    assert "other marks for errors" in says("error", errors=[])
    assert "the head does not say 0 failed" not in says("error")
    assert "the head does not say 1 failed" in says(
        "error", errors=[m.Failure(kind="api_error", message_index=0, text="")]
    )
    assert "other marks for compactions" in says("compaction", compaction=m.Compaction([]))
