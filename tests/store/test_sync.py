"""Whatever happens to the files between two runs: afterwards a store is as if it had been made then."""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from unspool.store.backends.postgres import PostgresDatabase
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.store import Store
from unspool.testing import ClaudeLog

from . import server
from .contents import MACHINE, contents, difference, fresh, new_store, synced
from .homes import AGENTS, append, log_of, put

EXAMPLES = int(os.environ.get("UNSPOOL_TEST_EXAMPLES", "12"))
_TURNS = 120
_NAMES = ("one", "other")

What = Literal["append", "half", "cut", "rewrite", "same size", "delete", "move", "restart"]


class Step(NamedTuple):
    """Something that happens to one of two files, and whether the store is brought up to date after it."""

    what: What
    file: int
    amount: int
    sync: bool


class File:
    """A log that grows, is truncated, rewritten, moved or deleted."""

    def __init__(self, agent: str, name: str, home: Path) -> None:
        log = log_of(agent, _TURNS, name)
        self._lines = [line + b"\n" for line in log.lines]
        self._next = 0
        self._path = log.write(home)
        self._path.unlink()
        self._rest = b""
        self._moves = 0

    def do(self, what: What, amount: int) -> None:
        """Change the file, if it exists."""
        if what == "append":
            self._append(self._rest + b"".join(self._lines[self._next : self._next + amount]))
            self._rest = b""
            self._next += amount
        elif what == "half" and self._next < len(self._lines):
            line = self._lines[self._next]
            half = len(line) * (amount % 10) // 10
            self._append(self._rest + line[:half])
            self._rest = line[half:]
            self._next += 1
        elif self._path.exists():
            self._change(what, amount)

    def _append(self, data: bytes) -> None:
        if data:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            append(self._path, data)

    def _change(self, what: What, amount: int) -> None:
        data = self._path.read_bytes()
        if what == "cut":
            put(self._path, data[: len(data) * (amount % 100) // 100])
        elif what == "rewrite":
            put(self._path, data.replace(b"number", b"the number", amount))
        elif what == "same size":
            put(self._path, data.replace(b"number", b"figure", amount))
        elif what == "delete":
            self._path.unlink()
        elif what == "move":
            self._moves += 1
            new = self._path.parent.with_name(f"moved-{self._moves}") / self._path.name
            new.parent.mkdir(exist_ok=True)
            self._path = self._path.rename(new)


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(("append", "append", "half", "cut", "rewrite", "same size", "delete", "move", "restart")),
        st.integers(0, 1),
        st.sampled_from((1, 2, 3, 7, 40, 97, 200)),
        st.booleans(),
    ),
    min_size=2,
    max_size=10,
)
_GROWS = [Step("append", 0, 200, True), Step("half", 0, 7, True), Step("append", 0, 97, True)]
_COMES_BACK = [Step("append", 0, 40, True), Step("delete", 0, 1, True), Step("append", 0, 7, True)]


class Run:
    """A store, reopened now and then, and the home it is kept up to date with."""

    def __init__(self, agent: str, folder: Path, address: str) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.files = [File(agent, f"{name}", self.home) for name in _NAMES]
        self.address = address
        self.store = self.open() if address else new_store(folder / "store.db")

    def open(self) -> Store:
        if self.address:
            return Store(PostgresDatabase(self.address, machine=MACHINE))
        return Store(SqliteDatabase(self.folder / "store.db", machine=MACHINE))

    def go(self, steps: list[Step]) -> None:
        """Take the steps."""
        try:
            for step in [*steps, Step("restart", 0, 0, True)]:
                if step.what == "restart":
                    self.store.close()
                    self.store = self.open()
                else:
                    self.files[step.file].do(step.what, step.amount)
                if step.sync:
                    self.check()
        finally:
            self.store.close()

    def check(self) -> None:
        """Bring the store up to date and compare it with a new one."""
        synced(self.store, self.home)
        assert difference(contents(self.store), fresh(self.folder, self.home)) == ""
        last = self.store.changes.since(0, 100_000)[-1:]
        synced(self.store, self.home)
        assert self.store.changes.since(0, 100_000)[-1:] == last


@pytest.mark.parametrize("agent", AGENTS)
@settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES < 100)
@given(steps=STEPS)
@example(steps=_GROWS)
@example(steps=_COMES_BACK)
def test_a_store_follows_its_files(agent: str, steps: list[Step]) -> None:
    """Appended, truncated, rewritten, deleted, moved: nothing is missed, and nothing is left over."""
    with tempfile.TemporaryDirectory() as folder:
        Run(agent, Path(folder), "").go(steps)


def test_a_session_that_is_found_to_be_a_copy(tmp_path: Path) -> None:
    """Another file shows that its messages are inherited: those that are settled too."""
    home = tmp_path / "home"
    original, copy = ClaudeLog("original"), ClaudeLog("copy")
    for log in (original, copy):
        for turn in range(100):
            log.user(f"please do number {turn}")
            log.model(f"that was {turn}")
    copy.write(home)
    store = new_store(tmp_path / "store.db")
    synced(store, home)
    lines = original.lines
    for count in (1, 90, 200):
        original.lines = lines[:count]
        original.write(home)
        synced(store, home)
        assert difference(contents(store), fresh(tmp_path, home)) == "", count
    store.close()


@pytest.mark.parametrize("agent", AGENTS)
@settings(
    max_examples=EXAMPLES // 3,
    deadline=None,
    derandomize=EXAMPLES < 100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
@example(steps=_GROWS)
def test_a_store_in_postgres_follows_its_files(agent: str, postgres_server: str, steps: list[Step]) -> None:
    """The same, for a team."""
    name = f"test-{uuid.uuid4().hex}"
    address = server.new_database(postgres_server, name)
    try:
        with tempfile.TemporaryDirectory() as folder:
            Run(agent, Path(folder), address).go(steps)
    finally:
        server.drop_database(postgres_server, name)
