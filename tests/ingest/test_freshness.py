"""What has changed on disk since the last sync."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.ingest.freshness import changes_since_sync
from unspool.ingest.sync import Syncer
from unspool.library import Library
from unspool.testing import ClaudeLog

from ..file_faults import ERRORS, failing
from ..store.contents import new_store


def _log(home: Path, name: str) -> Path:
    log = ClaudeLog(name)
    log.user("Hello")
    log.model("Hi.")
    return log.write(home)


def test_new_grown_and_deleted_files(tmp_path: Path) -> None:
    """Only these differ from the store."""
    home = tmp_path / "home"
    paths = [_log(home, name) for name in ("kept", "grown", "deleted")]
    store = new_store(tmp_path / "store.db")
    Syncer(store, home).run()
    assert changes_since_sync(store, Library(home)) == ({}, frozenset(), (str(home / ".claude"),))
    new = _log(home, "new")
    with open(paths[1], "ab") as file:
        file.write(b"{}\n")
    paths[2].unlink()
    changes = changes_since_sync(store, Library(home))
    assert changes is not None
    assert {ref.path for ref in changes.sessions.values()} == {new, paths[1]}
    assert changes.missing == {str(paths[2])}
    store.close()


def test_a_file_in_two_folders(tmp_path: Path) -> None:
    """A folder that is found twice has not changed."""
    home = tmp_path / "home"
    _log(home, "one")
    store = new_store(tmp_path / "store.db")
    Syncer(store, home).run()

    class Twice(Library):
        def homes(self):  # type: ignore[no-untyped-def]
            return [*super().homes(), *super().homes()]

    changes = changes_since_sync(store, Twice(home))
    assert changes is not None
    assert (changes.sessions, changes.missing) == ({}, frozenset())
    store.close()


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("below", ["", "projects"])
def test_a_folder_that_cannot_be_examined(tmp_path: Path, name: str, below: str) -> None:
    """Whether anything in it has changed is unknown."""
    home = tmp_path / "home"
    _log(home, "one")
    store = new_store(tmp_path / "store.db")
    Syncer(store, home).run()
    library, folder = Library(home), home / ".claude" / below
    with failing(home, lambda kind, where: kind == "stat" and where == folder, ERRORS[name]).active():
        assert changes_since_sync(store, library) is None
    store.close()
