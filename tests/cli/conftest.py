"""What all tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.agents import AGENTS

from .run import Run, run_captured


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home of the user's own."""
    place = tmp_path / "own"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("FORCE_COLOR", "NO_COLOR", "PAGER", "MANPAGER", *(agent.info.variable for agent in AGENTS.values())):
        monkeypatch.delenv(name, raising=False)
    return place


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command: `run("ls", "--json")`."""
    return lambda *arguments: run_captured(capsys, arguments)
