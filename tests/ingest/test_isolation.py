"""A session that cannot be read or written is set aside: its bytes are archived, and the others are complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool.agents import AGENTS
from unspool.agents.claude.reader import ClaudeSource
from unspool.ingest import reader_pool, sync
from unspool.ingest.freshness import changes_since_sync
from unspool.ingest.session import SessionIngest
from unspool.ingest.sync import Syncer
from unspool.ingest.writer import Ending
from unspool.library import Library
from unspool.store.store import Store

from ..store.contents import contents, difference, fresh, new_store, synced
from ..store.homes import append, log_of, rest_of, write_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Sessions of all agents, and one more that is going to fail."""
    write_home(tmp_path / "home")
    log_of("claude", name="odd").write(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = new_store(tmp_path / "store.db")
    yield store
    store.close()


def bad_id() -> str:
    log: Any = log_of("claude", name="odd")
    return str(log.session)


def bad_file(home: Path) -> Path:
    return next((home / ".claude").rglob(f"{bad_id()}.jsonl"))


def failing(function: Callable[..., Any], is_bad: Callable[..., bool]) -> Callable[..., Any]:
    """The function, with a bug that one session hits."""

    def fail(*arguments: Any) -> Any:
        if is_bad(*arguments):
            raise TypeError("unhashable type: 'list'")
        return function(*arguments)

    return fail


FAULTS: dict[str, tuple[type, str, Callable[..., bool]]] = {
    "reading": (ClaudeSource, "read", lambda _, ref, *__: ref.id == bad_id()),
    "before writing": (SessionIngest, "begin", lambda ingest: ingest.name == bad_id()),
    "after writing": (SessionIngest, "finish", lambda ingest, *_: ingest.name == bad_id()),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
def test_the_others_are_complete(
    fault: str, shared: bool, home: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever step fails, also where other processes read, and where sessions share a transaction."""
    owner, name, is_bad = FAULTS[fault]
    if shared:
        for module in (sync, reader_pool):
            monkeypatch.setattr(module, "WORTH_IT", 0)
        monkeypatch.setattr(sync, "can_share", lambda: True)
    expected = fresh(tmp_path, home)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, failing(getattr(owner, name), is_bad))
        report = Syncer(store, home, may_share=shared).run()
        again = Syncer(store, home).run()
    assert list(report.failures) == list(again.failures) == [bad_id()]
    assert "not understood by unspool" in report.failures[bad_id()]
    assert "unhashable type" in report.failures[bad_id()]
    left = contents(store)
    bad = f"claude {bad_id()}"
    assert report.new == len(left["sessions"]) == len(expected["sessions"]) - 1
    assert left["sessions"] == {key: value for key, value in expected["sessions"].items() if key != bad}
    assert left["files"] == expected["files"]
    assert len(store.files.unreadable()) == 1


def test_it_is_read_when_its_file_changes(
    home: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then it is not tried again, which could take long."""
    tried: list[str] = []
    read = ClaudeSource.read

    def fail(source: ClaudeSource, ref: Any, make: Any) -> Any:
        tried.append(ref.id)
        if ref.id == bad_id():
            raise IndexError("list index out of range")
        return read(source, ref, make)

    with monkeypatch.context() as patched:
        patched.setattr(ClaudeSource, "read", fail)
        for _ in range(3):
            assert list(Syncer(store, home).run().failures) == [bad_id()]
        assert tried.count(bad_id()) == 1
    path = bad_file(home)
    append(path, rest_of(log_of("claude", 4, "odd"), log_of("claude", 3, "odd")))
    assert synced(store, home).failures == {}
    assert store.files.unreadable() == {}
    assert difference(contents(store), fresh(tmp_path, home)) == ""


def test_a_stored_session_stays_as_it_was(home: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored is not replaced by nothing, and the new bytes are archived."""
    synced(store, home)
    before = contents(store)["sessions"][f"claude {bad_id()}"]
    path = bad_file(home)
    append(path, rest_of(log_of("claude", 4, "odd"), log_of("claude", 3, "odd")))
    with monkeypatch.context() as patched:
        patched.setattr(Ending, "write", failing(Ending.write, lambda *_: True))
        report = Syncer(store, home).run()
    assert list(report.failures) == [bad_id()]
    assert report.changed == 0
    left = contents(store)
    assert left["sessions"][f"claude {bad_id()}"]["record"] == before["record"]
    assert left["files"][os.fspath(path)][-1] == path.read_bytes()


def test_an_agent_whose_folder_cannot_be_listed_does_not_stop_the_others(
    home: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is reported with the folder."""

    def fail(_: object) -> Iterator[Any]:
        raise KeyError("nothing")

    monkeypatch.setattr(type(AGENTS["gemini"].open(home / ".gemini")), "refs", fail)
    report = Syncer(store, home).run()
    assert list(report.failures) == [str(home / ".gemini")]
    assert {row.agent for row in store.sessions.select()} == {"claude", "codex"}


@pytest.mark.parametrize("seconds", [-5_000_000_000, 0, 253_402_300_799, 300_000_000_000])
def test_a_file_with_an_impossible_time(store: Store, home: Path, seconds: int) -> None:
    """It is imported like any other, and found unchanged by later runs and lists."""
    for path in home.rglob("*.jsonl"):
        os.utime(path, ns=(seconds * 10**9, seconds * 10**9))
    synced(store, home)
    assert difference(contents(store), fresh(home.parent, home)) == ""
    found = changes_since_sync(store, Library(home))
    assert found is not None
    assert not found.sessions
    report = synced(store, home)
    assert (report.new, report.changed) == (0, 0)
