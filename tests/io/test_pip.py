"""Commands that install optional packages."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from unspool.io import pip


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python in a virtual environment that is not activated."""
    python = tmp_path / "my env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/pip")
    return python


def test_the_pip_of_another_python_is_not_used(python: Path) -> None:
    """The command can be copied to a shell."""
    assert pip.install_command("web") == f"'{python}' -m pip install 'unspool[web]'"


def test_the_pip_on_the_path_is_used_if_it_is_ours(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an activated environment."""
    monkeypatch.setattr(shutil, "which", lambda _: str(python.with_name("pip")))
    assert pip.install_command("web") == "pip install 'unspool[web]'"


def test_without_pip(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """uv makes environments without it."""
    monkeypatch.setattr(pip, "find_spec", lambda _: None)
    assert pip.install_command("web") == f"uv pip install --python '{python}' 'unspool[web]'"


@pytest.mark.usefixtures("python")
def test_other_commands_stay_as_they_are() -> None:
    """Some agents are installed with npm."""
    assert pip.own_pip("npm install -g @google/gemini-cli") == "npm install -g @google/gemini-cli"
