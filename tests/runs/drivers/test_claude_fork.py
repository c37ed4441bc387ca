"""Copies for forks of Claude Code: none is left behind if it cannot be made."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from unspool.runs.drivers import claude_fork
from unspool.runs.drivers.claude_fork import copy_for_fork
from unspool.runs.protocol import RunSpec
from unspool.testing import ClaudeLog


class Unreadable:
    """A file that can be opened but not read."""

    def __enter__(self) -> Unreadable:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, _size: int) -> bytes:
        raise OSError("no such device")


def fails(*_: Any) -> Any:
    raise OSError("no such device")


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunSpec:
    """A fork after a message on an abandoned branch."""
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    (tmp_path / "copies").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "copies"))
    log = ClaudeLog()
    log.user("first", "first")
    at = log.model("abandoned", name="abandoned")
    log.user("second", "second", "first")
    log.model("active")
    log.write(tmp_path)
    return RunSpec(folder=str(tmp_path), home=str(tmp_path), session=log.session, fork=True, at=at)


def test_a_copy_ends_with_the_message(spec: RunSpec) -> None:
    """On a branch that the program would not resume."""
    copy = copy_for_fork(spec)
    assert copy is not None
    assert len(copy.read_text().splitlines()) == 2
    assert copy.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("opened", [fails, lambda *_: Unreadable()])
def test_a_copy_that_fails_leaves_nothing_behind(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, opened: Any
) -> None:
    """Whether the log cannot be opened or cannot be read."""
    monkeypatch.setattr(claude_fork, "open", opened, raising=False)
    with pytest.raises(OSError, match="no such device"):
        copy_for_fork(spec)
    assert list((tmp_path / "copies").iterdir()) == []
