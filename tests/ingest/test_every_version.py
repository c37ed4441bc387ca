"""Whatever happens to logs and stores: every version that a sync has seen can be restored, until it is forgotten."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unspool.ingest.history import History
from unspool.ingest.push import push_archived
from unspool.ingest.rebuild import copy_readable, replace_database
from unspool.ingest.session import forget_session
from unspool.ingest.sync import Syncer
from unspool.ingest.verify import Verifier
from unspool.search.query import parse
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.database import Row
from unspool.store.filters import SessionFilter
from unspool.store.maintenance import Maintenance
from unspool.store.store import Store

from ..store.contents import MACHINE, Contents, contents, difference, fresh, new_store, synced
from ..store.test_sync import EXAMPLES, File, What

AGENTS = ("claude", "codex")
"""Those whose logs may be in any folder, so that moved ones are found."""
Event = Literal["sync", "interrupt", "push", "maintain", "rebuild", "forget", "lift"]
Versions = dict[str, list[bytes]]
"""What each session was read from so far, by the name of the session."""


class Step(NamedTuple):
    """Something that happens to one of two logs, or to one of two stores."""

    what: What | Event
    which: int
    amount: int = 1


class _InterruptedError(BaseException):
    """The program ends here."""


class Stores:
    """Two stores of the same home, and what they must not lose."""

    def __init__(self, agent: str, folder: Path) -> None:
        self._agent = agent
        self._folder = folder
        self._home = folder / "home"
        self._logs = [File(agent, name, self._home) for name in ("one", "other")]
        self._stores = [new_store(self._path(number)) for number in range(2)]
        self._seen: list[Versions] = [{}, {}]

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.db"

    def take(self, steps: list[Step]) -> None:
        """Take the steps. After each, every version has to be there."""
        try:
            for step in [*steps, Step("sync", 0), Step("sync", 1)]:
                if step.what in Event.__args__:  # type: ignore[attr-defined]
                    getattr(self, f"_{step.what}")(step.which, step.amount)
                    self._check(step.which)
                else:
                    self._logs[step.which].do(step.what, step.amount)  # type: ignore[arg-type]
        finally:
            for store in self._stores:
                store.close()

    # --- events ---

    def _sync(self, number: int, _: int) -> None:
        store = self._stores[number]
        synced(store, self._home)
        new = fresh(self._folder, self._home)
        self._see(number, new, {session.name for session in store.forgotten.all()})
        if not store.forgotten.all():
            assert difference(contents(store), new) == ""

    def _interrupt(self, number: int, amount: int) -> None:
        """A sync ends at one of its statements."""
        store, left = self._stores[number], amount
        rows = store.database.rows

        def counting(sql: str, *values: object) -> list[Row]:
            nonlocal left
            left -= 1
            if left < 0:
                raise _InterruptedError
            return rows(sql, *values)

        store.database.rows = counting  # type: ignore[method-assign]
        try:
            Syncer(store, self._home).run()
        except _InterruptedError:
            pass
        finally:
            store.database.rows = rows  # type: ignore[method-assign]
        self._open_again(number)

    def _push(self, number: int, _: int) -> None:
        """The other store gets what this one has, as `unspool push` does."""
        source, target = self._stores[number], self._stores[1 - number]
        forgotten = source.forgotten.all()
        assert Syncer(target, self._home, forgotten=forgotten).run().failures == {}
        kept = {session.name for session in (*forgotten, *target.forgotten.all())}
        self._see(1 - number, fresh(self._folder, self._home), kept)
        push_archived(source, target)
        assert push_archived(source, target) == 0
        unwanted = {session.name for session in target.forgotten.all()}
        for row in source.sessions.select(SessionFilter(is_gone=True)):
            if row.name not in unwanted:
                self._add(1 - number, row.name, self._seen[number].get(row.name, []))
        self._check(1 - number)

    def _maintain(self, number: int, _: int) -> None:
        Maintenance(self._stores[number], everything=True).run()

    def _rebuild(self, number: int, _: int) -> None:
        new = new_store(self._folder / "new.db")
        copy_readable(self._stores[number], new)
        new.database.optimize()
        new.close()
        self._stores[number].close()
        replace_database(self._folder / "new.db", self._path(number))
        self._open_again(number)

    def _forget(self, number: int, amount: int) -> None:
        """A session is removed, and nothing of its files stays behind."""
        store = self._stores[number]
        rows = sorted(store.sessions.select(), key=lambda row: row.name)
        if not rows:
            return
        row = rows[amount % len(rows)]
        with store.transaction():
            forget_session(store, row)
        versions = self._seen[number].pop(row.name, [])
        left = [b"".join(store.files.chunks(id)) for id in store.files.ids()]
        assert not any(data.startswith(version) for version in versions for data in left)

    def _lift(self, number: int, _: int) -> None:
        for session in self._stores[number].forgotten.all():
            self._stores[number].forgotten.lift(session)

    def _open_again(self, number: int) -> None:
        self._stores[number].close()
        self._stores[number] = Store(SqliteDatabase(self._path(number), machine=MACHINE))

    # --- versions ---

    def _see(self, number: int, new: Contents, forgotten: set[str]) -> None:
        """Note the bytes of the sessions that a new store has, except for forgotten ones."""
        for title, entry in new["sessions"].items():
            name = title.removeprefix(f"{self._agent} ")
            if name not in forgotten:
                self._add(number, name, [new["files"][path][-1] for (path,) in entry["files"]])

    def _add(self, number: int, name: str, versions: list[bytes]) -> None:
        known = self._seen[number].setdefault(name, [])
        # The beginning of a line does not say which session it belongs to.
        known += [data for data in versions if b"\n" in data and data not in known]

    def _check(self, number: int) -> None:
        store = self._stores[number]
        for name, versions in self._seen[number].items():
            history = History(store, store.sessions.find(name))
            found = [
                b"".join(store.files.chunks(state.id))[: state.size]
                for version in history.versions
                for state in history.states(version.number)
            ]
            assert [len(data) for data in versions if data not in found] == [], name
        assert Verifier(store).run().faults == []
        for row in store.sessions.select():
            store.messages.load_session(row.id)
        store.search.run(parse("number"))


STEPS = st.lists(
    st.one_of(
        st.builds(
            Step,
            st.sampled_from(("append", "append", "half", "cut", "rewrite", "same size", "delete", "move")),
            st.integers(0, 1),
            st.sampled_from((1, 2, 7, 40, 97)),
        ),
        st.builds(
            Step,
            st.sampled_from(("sync", "sync", "sync", "interrupt", "push", "maintain", "rebuild", "forget", "lift")),
            st.integers(0, 1),
            st.integers(0, 100),
        ),
    ),
    min_size=4,
    max_size=16,
)
_MOVED = [Step("append", 0, 40), Step("sync", 0), Step("cut", 0, 97), Step("move", 0), Step("sync", 0)]
_PUSHED = [*_MOVED, Step("delete", 0), Step("push", 0), Step("rebuild", 1), Step("forget", 1)]


@pytest.mark.parametrize("agent", AGENTS)
@settings(max_examples=max(4, EXAMPLES // 3), deadline=None, derandomize=EXAMPLES < 100)
@given(steps=STEPS)
@example(steps=_MOVED)
@example(steps=_PUSHED)
def test_every_version_can_be_restored_until_it_is_forgotten(agent: str, steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Stores(agent, Path(folder)).take(steps)
