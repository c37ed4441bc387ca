"""What tests of the ingest path start from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unspool.store import Store

from ..store.contents import new_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    made = new_store(tmp_path / "sessions.db")
    yield made
    made.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where the agents' folders are."""
    return tmp_path / "home"
