"""Files in the data directory may be anything: a pipe does not block, and what cannot be read is not replaced."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from unspool.cli._shared.client import server_address
from unspool.core.errors import UnspoolError
from unspool.io.faults import NotRegularError
from unspool.io.listing import read_file
from unspool.store import decision_log, open_store, redaction_key
from unspool.store.locate import machine_identity
from unspool.usage.prices import FILE_NAME, load_prices


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    os.mkfifo(tmp_path / "pipe")
    assert read_file(tmp_path / "file") == b"content"
    with pytest.raises(NotRegularError, match="not a regular file"):
        read_file(tmp_path / "pipe")


KINDS: dict[str, Callable[[Path], object]] = {"a pipe": os.mkfifo, "a folder": Path.mkdir}


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_something_else(kind: str, folder: Path) -> None:
    """The message names the file, and a server that is not registered is not running."""
    for name in (FILE_NAME, "machine", "server.json", decision_log.FILE_NAME):
        KINDS[kind](folder / name)
    with pytest.raises(UnspoolError, match=r"prices\.toml cannot be read"):
        load_prices(folder, {})
    with pytest.raises(UnspoolError, match="machine cannot be read"):
        machine_identity(folder)
    with pytest.raises(UnspoolError, match="machine cannot be read"):
        open_store()
    assert server_address() is None
    assert decision_log.decisions_if_readable("claude", "any") is None


def test_prices_that_are_nested_too_deeply(folder: Path) -> None:
    (folder / FILE_NAME).write_bytes(b"model = " + b"[" * 100_000)
    with pytest.raises(UnspoolError, match=r"prices\.toml is not a list of prices"):
        load_prices(folder, {})


def test_prices_that_cannot_be_examined_are_not_missing(folder: Path) -> None:
    """The list that comes with unspool would give other costs."""
    (folder / FILE_NAME).symlink_to(FILE_NAME)
    with pytest.raises(UnspoolError, match=r"prices\.toml cannot be read"):
        load_prices(folder, {})


def test_a_redaction_key_that_cannot_be_read_is_not_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another key, every placeholder would change."""
    key = redaction_key.redaction_key(folder)

    def fail(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(redaction_key, "read_file", fail, raising=False)
        patched.setattr(Path, "read_bytes", fail)
        assert redaction_key.redaction_key(folder) != key
    assert redaction_key.redaction_key(folder) == key
