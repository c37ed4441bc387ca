"""Nothing of the person who runs the tests is read or written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# How long one example takes says more about what else the machine does than about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def own_data_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory for each test."""
    folder = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("UNSPOOL_DATA", str(folder))
    monkeypatch.delenv("UNSPOOL_STORE", raising=False)
    return folder
