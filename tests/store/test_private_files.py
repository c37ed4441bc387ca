"""Files that only their owner can read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unspool.cli.commands.serve import _warn_of_open_folder
from unspool.store import open_store
from unspool.store.locate import data_folder
from unspool.store.private_files import open_private, restrict_database
from unspool.store.run_log import RunLog

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")


def opened_to_others(folder: Path) -> list[Path]:
    """What others could read."""
    return [path for path in (folder, *folder.rglob("*")) if path.stat().st_mode & 0o077]


def test_databases_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a given data directory, and the files that SQLite creates beside them."""
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path / "data"))
    store = open_store()
    with store.database.exclusive():
        log = RunLog(data_folder() / "runs.db")
        names = {path.name for path in data_folder().iterdir()}
        assert {"sessions.db", "sessions.db-wal", "sessions.db-lock", "runs.db", "runs.db-wal", "machine"} <= names
        assert opened_to_others(tmp_path / "data") == []
    log.close()
    store.close()


def test_databases_of_earlier_versions_become_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the data directory. The rights to a store elsewhere are for its owner to choose."""
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path))
    for place in (None, str(tmp_path / "shared.db")):
        open_store(place).close()
        path = Path(place) if place else tmp_path / "sessions.db"
        path.chmod(0o640)
        open_store(place).close()
        assert path.stat().st_mode & 0o777 == (0o640 if place else 0o600)


def test_a_database_that_is_read_only_stays_so(tmp_path: Path) -> None:
    """Rights are taken from others, not given to the owner."""
    path = tmp_path / "sessions.db"
    path.write_bytes(b"")
    path.chmod(0o444)
    restrict_database(path)
    assert path.stat().st_mode & 0o777 == 0o400


def test_a_new_file_is_private_and_an_old_one_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "old").touch(0o644)
    for name in ("old", "new"):
        with open_private(tmp_path / name) as file:
            file.write(b"x")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o644


def test_a_data_directory_that_others_can_enter_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for mode, warns in ((0o755, True), (0o700, False)):
        tmp_path.chmod(mode)
        _warn_of_open_folder(tmp_path)
        assert ("chmod 700" in capsys.readouterr().err) == warns
