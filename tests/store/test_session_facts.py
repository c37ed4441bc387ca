"""What lists, facets and files read from a store is the same in every database."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from unspool.search.query import parse
from unspool.store import Store
from unspool.store.facets import count_facets
from unspool.store.filters import SessionFilter
from unspool.store.session_facts import last_prompt, model_counts, session_facts
from unspool.store.touched_files import TouchedFiles
from unspool.testing.builders import START
from unspool.usage.prices import shipped_prices

from ..web.finding_home import LONG, REPOSITORY, write_home
from .contents import synced


def test_lists_are_the_same_in_every_database(store: Store, tmp_path: Path) -> None:
    synced(store, write_home(tmp_path / "home"))
    row = store.sessions.find(LONG)
    facts = session_facts(store.database, shipped_prices(), [row.id])[row.id]
    assert (facts.turns, facts.models) == (72, ["claude-sonnet-4-5"])
    assert facts.tokens.output > 0
    assert facts.cost.usd > 0
    found = last_prompt(store.database, row.id)
    assert found is not None
    assert found[1] is False
    assert [(one.model, one.sessions) for one in model_counts(store.database, SessionFilter())] == [
        ("claude-sonnet-4-5", 3)
    ]
    assert store.sessions.count(SessionFilter(model="claude-sonnet-4-5")) == 3
    assert {one.value: one.sessions for one in store.sessions.count_by("agent", SessionFilter())} == {
        "claude": 3,
        "codex": 1,
    }
    counted = count_facets(store.database, parse("lighthouse"), START + timedelta(days=3))
    assert {one.value: one.sessions for one in counted.agent} == {"claude": 3, "codex": 1}
    assert [one.value for one in counted.after] == ["7d", "30d", "365d"]
    assert len(store.search.run(parse("lighthouse"), order="time").found) == 4
    touched = TouchedFiles(store.database, store.sessions)
    assert [one.sessions for one in touched.page("tower", 5)] == [3]
    assert len(touched.sessions_of(f"{REPOSITORY}/tower.py")) == 3
