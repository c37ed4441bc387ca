"""Nothing of the person who runs the tests is read or written."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_data_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory for each test."""
    folder = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("UNSPOOL_DATA", str(folder))
    monkeypatch.delenv("UNSPOOL_STORE", raising=False)
    return folder
