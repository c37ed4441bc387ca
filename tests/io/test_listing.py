"""Listing folders, and asking whether something exists."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from unspool.io.listing import may_exist


def test_what_cannot_be_examined_may_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the file system can say that something does not exist."""
    path = tmp_path / "log.jsonl"
    assert not may_exist(path)
    path.symlink_to(tmp_path / "nowhere")
    assert may_exist(path)
    assert not may_exist(path / "below")
    assert not may_exist("\0")

    def fail(where: str | Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(where))

    monkeypatch.setattr(os, "lstat", fail)
    assert may_exist(tmp_path / "elsewhere")
