"""What a sync does for many sessions grows with their number, not with the number of pairs among them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from errno import EACCES
from pathlib import Path

import pytest

from unspool.ingest.sync import Syncer
from unspool.ingest.transactions import Pipeline
from unspool.ingest.unreadable import Unreadable
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.store import Store
from unspool.testing import ClaudeLog

from ..forks import continued
from ..work import lines_per_pair, lines_run, per_pair

_COUNT = 12
_MOST = 0.1
"""Lines of Python, or tens of steps in SQLite, for each two sessions."""
_STEPS = 10


pytestmark = pytest.mark.usefixtures("no_commits_by_the_clock")


def _paths(home: Path) -> list[Path]:
    return sorted((home / ".claude" / "projects").glob("*/*.jsonl"))


def _nothing(_: Path) -> None:
    """Leave everything as it is."""


def _append(home: Path) -> None:
    for number, path in enumerate(_paths(home)):
        log = continued(ClaudeLog(f"more {number}"), f"more {number}")
        with open(path, "ab") as file:
            file.write(log.data)


def _touch(home: Path) -> None:
    for path in _paths(home):
        os.utime(path, (1, 1))


def _move(home: Path) -> None:
    for path in _paths(home):
        path.rename(path.with_name(f"{path.stem[::-1]}.jsonl"))


def _delete(home: Path) -> None:
    for path in _paths(home):
        path.unlink()


class _Counted:
    """Counts what the next sync does after something happened to all files."""

    def __init__(self, folder: Path, happens: Callable[[Path], None] | None) -> None:
        self._folder = folder
        self._happens = happens
        self.steps = 0

    def run(self, sessions: int) -> tuple[int, int]:
        """Return the lines of Python, and the steps in SQLite."""
        home = self._folder / f"home{sessions}"
        for number in range(sessions):
            continued(ClaudeLog(f"session {number}"), f"prompt {number}").write(home)
        database = SqliteDatabase(self._folder / f"{sessions}.db", machine=("test", "test"))
        store = Store(database)
        if self._happens is not None:
            Syncer(store, home).run()
            self._happens(home)
        self.steps = 0
        database._connection.set_progress_handler(self._step, _STEPS)
        lines = lines_run(lambda: Syncer(store, home).run())
        store.close()
        shutil.rmtree(home)
        return lines, self.steps

    def _step(self) -> int:
        self.steps += 1
        return 0


@pytest.mark.parametrize("happens", [None, _nothing, _append, _touch, _move, _delete])
def test_a_sync_of_many_sessions(tmp_path: Path, happens: Callable[[Path], None] | None) -> None:
    """Whether they are new, the same, longer, touched, moved or deleted."""
    counted = _Counted(tmp_path, happens)
    counted.run(1)
    lines, steps = zip(*(counted.run(times * _COUNT) for times in (1, 2, 3)), strict=True)
    assert per_pair(lines, _COUNT) < _MOST
    assert per_pair(steps, _COUNT) < _MOST


def test_sessions_waiting_for_their_commit_are_few(tmp_path: Path) -> None:
    """They stay in memory until then, to be written again if another one fails."""
    store = Store(SqliteDatabase(tmp_path / "sessions.db", machine=("test", "test")))
    pipeline = Pipeline(store)
    size, most = 1 << 20, 0
    for _ in range(100):
        pipeline.session(lambda: pipeline.write(lambda: None, size), lambda _: None)
        most = max(most, len(pipeline._batch))
    pipeline.commit()
    store.close()
    assert 0 < most * size <= 32 << 20


def test_texts_waiting_for_the_index_are_few(tmp_path: Path) -> None:
    """However many a transaction adds."""
    database = SqliteDatabase(tmp_path / "sessions.db", machine=("test", "test"))
    text, most = b"word " * 200_000, 0
    with database.transaction():
        for id in range(1, 60):
            database.words.add([id], [text], [0])
            most = max(most, sum(map(len, database.words._added.values())))
    database.close()
    assert 0 < most <= 20 << 20


def test_files_that_cannot_be_read() -> None:
    """Each session asks which of them matter."""

    def work(count: int) -> None:
        root = Path("/home/dev/.claude")
        known = {f"{root}/projects/p{number}/s.jsonl" for number in range(count)}
        unreadable = Unreadable(root, known, {})
        unreadable.add({root / "projects" / f"p{number}": OSError(EACCES, "no") for number in range(count)})
        assert unreadable.mark()
        for _ in range(count):
            unreadable.mark()

    assert lines_per_pair(work, 30) < _MOST
