"""What lists say about sessions below their titles, and the choices beside them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from unspool.store import Store
from unspool.store.filters import SessionFilter
from unspool.store.session_facts import model_counts, session_facts
from unspool.usage.prices import shipped_prices
from unspool.web import session_details
from unspool.web.session_details import details_of, duration_of
from unspool.web.session_list import list_sessions
from unspool.web.views import ListParams

from ..store.contents import new_store, synced
from .finding_home import LONG, REPOSITORY, WORKTREE, write_home


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("details")
    with closing(new_store(folder / "sessions.db")) as store:
        synced(store, write_home(folder / "home"))
        yield store


def test_facts_are_counted_for_each_session(found: Store) -> None:
    """Turns and tokens as the record has them."""
    rows = found.sessions.select()
    facts = session_facts(found.database, shipped_prices(), [row.id for row in rows])
    for row in rows:
        session = found.messages.load_session(row.id)
        usage = session.info.usage
        prompts = [one for one in session.messages if one.author == "human" and one.role == "user"]
        assert facts[row.id].turns == len(prompts)
        assert facts[row.id].tokens.output == (usage.output or 0)
        assert set(facts[row.id].models) == set(session.info.models)
    assert session_facts(found.database, shipped_prices(), []) == {}


def test_models_are_counted_and_filtered(found: Store) -> None:
    (model,) = model_counts(found.database, SessionFilter())
    assert (model.model, model.sessions) == ("claude-sonnet-4-5", 3)
    assert list_sessions(found, ListParams(model=model.model)).total == 3
    assert list_sessions(found, ListParams(model="other")).total == 0


def test_the_last_prompt_is_read_once(found: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again when the session has grown."""
    row = found.sessions.find(LONG)
    assert details_of(found, [row])[row.id].last_prompt == "the end"
    read: list[int] = []

    def read_again(_: Store, id: int) -> str:
        read.append(id)
        return "fresh"

    monkeypatch.setattr(session_details, "_last_prompt", read_again)
    assert details_of(found, [row])[row.id].last_prompt == "the end"
    assert read == []
    row.messages += 1
    assert details_of(found, [row])[row.id].last_prompt == "fresh"
    assert read == [row.id]


def test_a_single_prompt_is_not_repeated(found: Store) -> None:
    (row,) = found.sessions.select(SessionFilter(agent="codex"))
    assert details_of(found, [row])[row.id].last_prompt == ""
    assert duration_of(row) is not None


def test_prices_that_cannot_be_read_leave_costs_out(
    found: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "prices.toml"
    broken.write_text("model = 1")
    row = found.sessions.find(LONG)
    assert details_of(found, [row])[row.id].facts.cost.usd > 0
    monkeypatch.setenv("UNSPOOL_PRICES", str(broken))
    assert details_of(found, [row])[row.id].facts.cost.usd == 0


def test_a_project_includes_its_worktrees(found: Store) -> None:
    assert list_sessions(found, ListParams(project=REPOSITORY)).total == 3
    assert list_sessions(found, ListParams(project=WORKTREE)).total == 1


@pytest.mark.parametrize(
    ("after", "before", "count"),
    [("2026-03-01", None, 4), ("2026-03-02", None, 0), (None, "2026-03-01", 0), ("2026-03-01", "2026-03-02", 4)],
)
def test_sessions_of_a_period(found: Store, after: str | None, before: str | None, count: int) -> None:
    assert list_sessions(found, ListParams(after=after, before=before)).total == count
