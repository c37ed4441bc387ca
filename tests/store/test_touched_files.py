"""Which sessions touched a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from unspool.core import model as m
from unspool.store import Store
from unspool.store.touched_files import TouchedFiles

from ..web.finding_home import LONG, REPOSITORY, write_home
from .contents import new_store, synced

PATH = f"{REPOSITORY}/tower.py"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("touched")
    with closing(new_store(folder / "sessions.db")) as store:
        synced(store, write_home(folder / "home"))
        yield store


def test_files_are_listed_with_the_number_of_their_sessions(store: Store) -> None:
    touched = TouchedFiles(store.database, store.sessions)
    (file,) = touched.page("TOWER", 10)
    assert (file.path, file.sessions) == (PATH, 3)
    assert file.ended_at is not None
    assert touched.page("", 10) == [file]
    assert touched.page("", 10, 1) == []
    assert touched.page("100%", 10) == []


def test_the_sessions_of_a_file_are_found_with_their_calls(store: Store) -> None:
    found = TouchedFiles(store.database, store.sessions).sessions_of(PATH)
    assert len(found) == 3
    assert LONG in [one.session.name for one in found]
    for one in found:
        for index in one.messages:
            (message,) = store.messages.read(one.session.id, index, index + 1)
            inputs = [bytes(block.raw_input) for block in message.blocks if isinstance(block, m.ToolCall)]
            assert any(b"tower.py" in given for given in inputs)
    assert TouchedFiles(store.database, store.sessions).sessions_of("/nothing") == []
