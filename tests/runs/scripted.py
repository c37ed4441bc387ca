"""Scripted agents for tests of everything above the drivers: real processes, without a model."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from unspool.runs.drivers.gemini import PROGRAM_VARIABLE, GeminiDriverFactory
from unspool.runs.protocol import RunSpec

AGENT = Path(__file__).parent / "scripted_agent.py"


def install(folder: Path, monkeypatch: pytest.MonkeyPatch | None = None) -> Path:
    """Make the scripted agent a program, and let drivers find it."""
    program = folder / "scripted-agent"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{AGENT}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    if monkeypatch is not None:
        monkeypatch.setenv(PROGRAM_VARIABLE, str(program))
    return program


def drivers() -> dict[str, GeminiDriverFactory]:
    """The drivers a supervisor can use."""
    return {"gemini": GeminiDriverFactory()}


def spec(folder: Path, session: str | None = None) -> RunSpec:
    """A project and a home of its own."""
    home, project = folder / "home", folder / "project"
    home.mkdir(exist_ok=True)
    project.mkdir(exist_ok=True)
    return RunSpec(folder=str(project), home=str(home), session=session)
