"""One fault of the file system at every call in turn: nothing that was stored is lost, and one more run makes it good.

By default some of the calls are drawn; `make faults` tries all of them.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from unspool.ingest.restore import restore_session
from unspool.ingest.sync import Syncer
from unspool.ingest.watch import Watcher
from unspool.store import Store
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.testing import ClaudeLog, call

from ..file_faults import Call, FileFaults, error
from ..store.contents import MACHINE, Contents, contents, difference, fresh, new_store, synced
from ..store.homes import AGENTS, log_of

DRAWN = int(os.environ.get("UNSPOOL_TEST_FAULTS", "4"))
"""How many calls of each operation fail; 0 means all."""

Act = Callable[[Call], int | None]


def fails(code: int) -> Act:
    """The call fails."""

    def act(call: Call) -> None:
        raise error(code, call)

    return act


def is_short(_: Call) -> int:
    """The call returns fewer bytes than there are."""
    return 7


def vanishes(call: Call) -> None:
    """The file is deleted before the call."""
    if call.path.is_file():
        call.path.unlink()


def is_replaced(call: Call) -> None:
    """Another file of the same length takes its place before the call."""
    if call.path.is_file():
        new = call.path.with_name("new")
        new.write_bytes(call.path.read_bytes().replace(b"please", b"PLEASE"))
        new.replace(call.path)


def grows(call: Call) -> None:
    """A line is added before the call."""
    if call.path.suffix == ".jsonl":
        with open(call.path, "ab") as file:
            file.write(b'{"type":"added","uuid":"added"}\n')


FAULTS: dict[str, Act] = {
    **{name: fails(getattr(errno, name)) for name in ("EIO", "EACCES", "ESTALE")},
    "short": is_short,
    "vanishes": vanishes,
    "is_replaced": is_replaced,
    "grows": grows,
}
CHANGES_THE_DISK = ("vanishes", "is_replaced", "grows")


class Files:
    """The files of a home, which can be put back as they were."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._known = self.now()

    def now(self) -> dict[Path, bytes]:
        """What is on the disk."""
        return {path: path.read_bytes() for path in sorted(self.home.rglob("*")) if path.is_file()}

    def put_back(self) -> None:
        """Restore all files, with new times: readers remember what they have read of an unchanged one."""
        for path in self.now().keys() - self._known.keys():
            path.unlink()
        for path, data in self._known.items():
            path.write_bytes(data)


class Scene(NamedTuple):
    """A store, and a home that has changed since it was brought up to date."""

    folder: Path
    files: Files
    before: Contents
    """What the store holds."""
    expected: Contents
    """What a new store holds."""

    def open(self) -> Store:
        """A copy of the store."""
        for path in self.folder.glob("copy.db*"):
            path.unlink()
        shutil.copy(self.folder / "store.db", self.folder / "copy.db")
        store = Store(SqliteDatabase(self.folder / "copy.db", machine=MACHINE))
        store.database.rows("PRAGMA synchronous = OFF")
        return store


def change_home(agent: str, home: Path) -> None:
    """A session grows, one is edited, one is new, and one of Claude Code starts a sub-agent."""
    log_of(agent, 5).write(home)
    edited = log_of(agent, 3, "edited")
    edited.lines = [line.replace(b"number 1", b"NUMBER 1") for line in edited.lines]
    edited.write(home)
    log_of(agent, 2, "new").write(home)
    if agent == "claude":
        with_subagent(2).write(home)
        child = ClaudeLog("parent", agent="a1")
        child.user("please look around")
        child.model("found it")
        child.write(home)


def with_subagent(turns: int) -> ClaudeLog:
    """A session that starts a sub-agent in its last turn."""
    log = ClaudeLog("parent")
    log.user("please begin")
    if turns > 1:
        log.model(call("c1", "Task", prompt="please look around"))
        log.result("c1", "found it", toolUseResult={"agentId": "a1"})
    return log


@pytest.fixture(scope="module", params=AGENTS)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Sessions of one agent."""
    agent: str = request.param
    folder = tmp_path_factory.mktemp("faults")
    home = folder / "home"
    for name in ("one", "edited", "gone"):
        log_of(agent, 3, name).write(home)
    if agent == "claude":
        with_subagent(1).write(home)
    store = new_store(folder / "store.db")
    synced(store, home)
    log_of(agent, 3, "gone").write(home).unlink()
    synced(store, home)
    before = contents(store, gone=True)
    store.database.optimize()
    store.close()
    change_home(agent, home)
    return Scene(folder, Files(home), before, fresh(folder, home))


def numbers(count: int, seed: str) -> list[int]:
    """The calls that fail."""
    return list(range(count)) if not DRAWN else sorted(random.Random(seed).sample(range(count), min(DRAWN, count)))


def at(number: int, act: Act) -> Callable[[int, Call], int | None]:
    """Let one call go wrong."""
    return lambda current, call: act(call) if current == number else None


def run(store: Store, home: Path, act: Callable[[int, Call], int | None] | None = None) -> list[Call]:
    """Bring the store up to date; returns the calls."""
    with FileFaults(home, act).active() as faults:
        Syncer(store, home).run()
    return faults.calls


def assert_nothing_lost(store: Store, before: Contents, where: str) -> None:
    """Every session that was stored is there with its messages, and every byte in some version of its file."""
    kept: dict[str, list[bytes]] = {}
    for id, path in store.database.rows("SELECT id, path FROM file"):
        kept.setdefault(path, []).append(b"".join(store.files.chunks(id)))
    for path, (_, _, _, data) in before["files"].items():
        assert any(version.startswith(data) for version in kept[path]), f"{where}: bytes of {path}"
    now = contents(store, gone=True)["sessions"]
    lost = [name for name, session in before["sessions"].items() if _count(now[name]) < _count(session)]
    assert lost == [], where


def _count(session: Contents) -> int:
    ((*_, messages, _, _, _),) = session["facts"]
    return int(messages)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_at_every_call_of_a_sync(scene: Scene, name: str) -> None:
    """Afterwards one more run, and the store is like a new one."""
    home = scene.files.home
    scene.files.put_back()
    store = scene.open()
    count = len(run(store, home))
    store.close()
    for number in numbers(count, f"{name} {home}"):
        scene.files.put_back()
        store = scene.open()
        calls = run(store, home, at(number, FAULTS[name]))
        where = f"{name} at call {number} of {count}: {calls[min(number, len(calls) - 1)]}"
        assert_nothing_lost(store, scene.before, where)
        assert Syncer(store, home).run().failures == {}, where
        expected = fresh(scene.folder, home) if name in CHANGES_THE_DISK else scene.expected
        assert difference(contents(store), expected) == "", where
        assert_nothing_lost(store, scene.before, where)
        store.close()
    scene.files.put_back()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_at_every_call_while_a_session_is_followed(scene: Scene, name: str) -> None:
    """The line is stored by the next sync at the latest."""
    home, added = scene.files.home, b'{"type":"added","uuid":"more"}\n'
    scene.files.put_back()
    path = next(path for path in scene.files.now() if path.suffix == ".jsonl" and path.parent.name != "subagents")

    def follow(act: Callable[[int, Call], int | None] | None) -> tuple[Store, list[Call]]:
        scene.files.put_back()
        store = scene.open()
        watcher = Watcher(store, home)
        watcher.read_all()
        with open(path, "ab") as file:
            file.write(added)
        with FileFaults(home, act).active() as faults:
            watcher.ingest({path})
        return store, faults.calls

    store, calls = follow(None)
    store.close()
    for number in numbers(len(calls), f"followed {name} {home}")[: DRAWN // 3 or None]:
        store, calls = follow(at(number, FAULTS[name]))
        where = f"{name} at call {number}: {calls[min(number, len(calls) - 1)]}"
        assert_nothing_lost(store, scene.before, where)
        assert Syncer(store, home).run().failures == {}, where
        assert difference(contents(store), fresh(scene.folder, home)) == "", where
        store.close()
    scene.files.put_back()


@pytest.fixture
def store(scene: Scene) -> Iterator[Store]:
    """A store that is up to date."""
    scene.files.put_back()
    store = scene.open()
    synced(store, scene.files.home)
    yield store
    store.close()


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ENOSPC], ids=errno.errorcode.get)
def test_a_fault_at_every_call_of_a_restore(scene: Scene, store: Store, tmp_path: Path, code: int) -> None:
    """No part of a file is left, and the same folder can be used again."""
    row = max(store.sessions.select(), key=lambda row: row.messages)
    with FileFaults(tmp_path).active() as faults:
        restore_session(store, row, tmp_path / "counted")
    data = b"".join(store.files.chunks(store.files.of_session(row.id)[0].id))
    makes = [number for number, call in enumerate(faults.calls) if call.kind != "stat"]
    assert len(makes) > 3
    for number in makes:
        target = tmp_path / str(number)
        with FileFaults(tmp_path, at(number, fails(code))).active(), pytest.raises(OSError, match=os.strerror(code)):
            restore_session(store, row, target)
        assert [path for path in target.rglob("*") if path.is_file()] == []
        restore_session(store, row, target)
        (path,) = (path for path in target.rglob("*") if path.is_file())
        assert path.read_bytes() == data
