"""Tests neither read nor write files of the user who runs them."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from .needs import FAST, FIXTURES, NEEDS

pytest_plugins = ["tests.isolation", "tests.summary", "tests.scheduling", "tests.precompile"]

# How long one example takes says more about what else the machine does than about the code.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def own_data_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data directory for each test."""
    # Not by `mktemp`, which looks for a free number among the directories of all tests.
    folder = Path(tempfile.mkdtemp(prefix="data-", dir=tmp_path_factory.getbasetemp()))
    monkeypatch.setenv("UNSPOOL_DATA", str(folder))
    monkeypatch.delenv("UNSPOOL_STORE", raising=False)
    yield folder
    with suppress(OSError):  # Most tests leave it empty.
        folder.rmdir()


@pytest.fixture
def no_commits_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync that takes long commits more often. Tests that count what it does must not depend on that."""
    from unspool.ingest import transactions

    monkeypatch.setattr(transactions, "_BATCH_SECONDS", float("inf"))


_LEFT_OUT = {Path(__file__).parent / path for paths in NEEDS.values() for path in paths}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip modules whose tests are all deselected, so that they are not even imported."""
    return True if collection_path in _LEFT_OUT and config.getoption("markexpr") == FAST else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they need, so that none has to remember to."""
    repeated = [id for id, count in Counter(item.nodeid for item in items).items() if count > 1]
    assert repeated == [], "of tests with the same id, workers run only one"
    folder = Path(__file__).parent
    needs = {folder / path: mark for mark, paths in NEEDS.items() for path in paths}
    for item in items:
        if mark := needs.get(item.path):
            item.add_marker(mark)
        for fixture in set(getattr(item, "fixturenames", ())) & FIXTURES.keys():
            item.add_marker(FIXTURES[fixture])
        callspec = getattr(item, "callspec", None)
        if callspec is not None and "postgres" in callspec.params.values():
            item.add_marker("server")
