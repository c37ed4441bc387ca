"""Answers about recordings of all agents keep their budgets, and every cursor leads on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from unspool.store import Store
from unspool.store.filters import SessionFilter
from unspool.store.touched_files import TouchedFiles

from ..recordings import sampled_versions
from .project import Asked, store_of

BUDGETS = (500, 2000, 20_000)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """All sampled recordings; those of one scenario may have the same ids in several versions."""
    homes = [recording.home for group in sampled_versions() for recording in group]
    made = store_of(tmp_path_factory.mktemp("recordings") / "store.db", *homes)
    yield made
    made.close()


def test_every_session_can_be_read_within_a_budget(store: Store) -> None:
    ask = Asked(store, None)
    rows = store.sessions.select(SessionFilter(is_empty=False))
    assert len(rows) > 100
    for number, row in enumerate(rows):
        budget = 20_000 if number % 20 == 0 else (500, 2000)[number // 2 % 2]
        if number % 2:
            assert list(islice(ask.pages("read_session", session=row.name, budget=budget), 2))
        else:
            assert ask("context_at", session=row.name, message=row.messages // 2, budget=budget)


@pytest.mark.parametrize("budget", BUDGETS)
def test_lists_keep_their_budget(store: Store, budget: int) -> None:
    ask = Asked(store, None)
    for tool in ("recent_work", "what_was_refused"):
        assert len(list(islice(ask.pages(tool, budget=budget), 5))) > 1 or budget == max(BUDGETS)
    for query in ("is:error", "file OR the", "tool:bash"):
        assert list(islice(ask.pages("search", query=query, budget=budget), 2))
    for file in TouchedFiles(store.database, store.sessions).page(".py", 6):
        assert list(islice(ask.pages("history_of_file", path=file.path, budget=budget), 2))
