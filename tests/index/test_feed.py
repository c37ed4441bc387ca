"""The process that feeds a store: real files, a real process, and what it says."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool.store.sqlite import SqliteStore

from ..builders import ClaudeLog
from ..store.contents import contents, difference, fresh
from ..store.homes import AGENTS, claude_log, codex_log, log_of, rest_of, write_home

_PATIENCE = 30.0
_SHARING = """
from unspool.index import pipeline, sync, workers
sync.WORTH_IT = workers._AT_ONCE = 1
pipeline._SECONDS = 0.0
from unspool.index.feed import main
main()
"""
"""Workers read, and each session is committed alone, however little there is."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it uses signals")


class Feed:
    """The process, and what it has said."""

    def __init__(self, folder: Path, *command: str) -> None:
        self.place = folder / "store.db"
        self.errors = open(folder / "errors.txt", "w+b")  # noqa: SIM115 - it lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, *(command or ("-m", "unspool.index.feed")),
             "--store", str(self.place), "--home", str(folder / "home")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            env={**os.environ, "UNSPOOL_DATA": str(folder / "data")},
        )  # fmt: skip
        self.said: list[dict[str, Any]] = []
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def until(self, key: str, fits: Callable[[Any], bool] = lambda _: True) -> Any:
        """Wait until it says something; what it says of it."""
        until = time.monotonic() + _PATIENCE
        while line := self._lines.get(timeout=max(0.1, until - time.monotonic())):
            self.said.append(json.loads(line))
            if key in self.said[-1] and fits(self.said[-1][key]):
                return self.said[-1][key]
        raise AssertionError(f"it ended without {key!r}: {self.said[-3:]} {self.complaints()}")

    def complaints(self) -> str:
        """What it wrote where it should write nothing."""
        self.errors.seek(0)
        return self.errors.read().decode()

    def end(self) -> float:
        """Let its input end; how long it took to notice."""
        assert self.process.stdin is not None
        began = time.monotonic()
        self.process.stdin.close()
        assert self.process.wait(_PATIENCE) == 0
        return time.monotonic() - began

    def kill(self) -> None:
        """Without a chance to tidy up."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._listener.join(_PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def store(self) -> SqliteStore:
        """Another view of the same store."""
        return SqliteStore(self.place, machine=("another", "another"), read_only=True)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Feed]]:
    """Starts feeds of one home; they end with the test."""
    started: list[Feed] = []

    def begin(*command: str) -> Feed:
        started.append(Feed(tmp_path, *command))
        return started[-1]

    yield begin
    for feed in started:
        feed.kill()
        complaints = feed.complaints()
        feed.errors.close()
        assert complaints == ""


def sessions_of(store: SqliteStore, home: Path, folder: Path) -> str:
    """How a store that another machine's name is in differs from a new one; files and sessions alike."""
    (store.machine,) = store.rows("SELECT machine FROM session LIMIT 1")[0]
    return difference(contents(store), fresh(folder, home))


def test_it_reads_all_and_then_follows(start: Callable[..., Feed], tmp_path: Path) -> None:
    """Every change of the journal is told, when it can be read."""
    home = tmp_path / "home"
    paths = write_home(home)
    feed = start()
    feed.until("ready")
    seqs = [line["seq"] for line in feed.said if "seq" in line]
    assert {"done", "total", "bytes_done", "bytes_total"} == next(
        line["progress"].keys() for line in feed.said if "progress" in line
    )
    store = feed.store()
    assert store.last_entry() == seqs[-1] == 6
    for agent in AGENTS:
        with open(paths[agent], "ab") as file:
            file.write(rest_of(log_of(agent, 4), log_of(agent, 3)))
        seen = seqs[-1]
        seqs.append(feed.until("seq", lambda seq, seen=seen: seq > seen))  # type: ignore[misc]
        assert store.last_entry() >= seqs[-1]
        assert any(entry.kind == "messages.appended" for entry in store.journal(seen))
    assert seqs == sorted(set(seqs))
    store.close()
    assert feed.end() < 1.5


def test_a_session_that_begins_is_there_at_once(start: Callable[..., Feed], tmp_path: Path) -> None:
    """A new file, in a new folder too, a sub-agent, and lines that come to several sub-agents."""
    home = tmp_path / "home"
    claude_log(2, "parent").write(home)
    feed = start()
    feed.until("ready")
    store = feed.store()
    codex_log(1).write(home)
    assert _waits_for(lambda: len(store.sessions()) == 2), "another agent's folder is found"
    path = claude_log(1, "second").write(home)
    assert _waits_for(lambda: len(store.sessions()) == 3)
    moved = path.parent.with_name("-home-dev-other") / path.name
    log = claude_log(1, "third")
    moved.parent.mkdir()
    moved.with_name(f"{log.session}.jsonl").write_bytes(log.data)
    assert _waits_for(lambda: len(store.sessions()) == 4)
    agents = [ClaudeLog("parent", agent=f"a{number}") for number in range(3)]
    for agent in agents:
        agent.user("look", f"look {agent.agent}")
        agent.model("looking", name=f"looking {agent.agent}")
        agent.write(home)
    assert _waits_for(lambda: len(store.sessions("session.kind = 'subagent'")) == 3)
    for agent in agents:
        agent.user("more", f"more {agent.agent}")
        agent.write(home)
    assert _waits_for(lambda: [row.messages for row in store.sessions("session.kind = 'subagent'")] == [3, 3, 3])
    assert _waits_for(lambda: "subagents.changed" in [entry.kind for entry in store.journal()])
    created = [entry.session for entry in store.journal() if entry.kind == "session.created"]
    assert len(created) == len(set(created)) == 7
    assert _waits_for(lambda: sessions_of(store, home, tmp_path) == "")
    store.close()


def _waits_for(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + _PATIENCE
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def test_it_waits_for_the_first_agent(start: Callable[..., Feed], tmp_path: Path) -> None:
    """Nobody has started one yet; there may not even be a home."""
    feed = start()
    feed.until("ready")
    claude_log(2).write(tmp_path / "home")
    feed.until("seq", lambda seq: seq == 1)
    codex_log(2).write(tmp_path / "home")
    feed.until("seq", lambda seq: seq == 2)
    assert feed.end() < 1.5


def test_it_ends_in_the_middle_of_the_first_reading(start: Callable[..., Feed], tmp_path: Path) -> None:
    """And leaves no worker behind."""
    for number in range(60):
        claude_log(60, f"session {number}").write(tmp_path / "home")
    feed = start("-c", _SHARING)
    feed.until("progress", lambda progress: progress["done"] > 2)
    workers = _children(feed.process.pid)
    assert workers
    assert feed.end() < 1.5
    assert not any(line == {"ready": True} for line in feed.said)
    assert _waits_for(lambda: not any(_runs(worker) for worker in workers))


@pytest.mark.parametrize("command", [("-c", _SHARING), ()], ids=["with workers", "alone"])
def test_killed_in_the_first_reading_and_started_again(
    command: tuple[str, ...], start: Callable[..., Feed], tmp_path: Path
) -> None:
    """What was told stays true, nothing is told twice, and its workers do not outlive it."""
    home = tmp_path / "home"
    for number in range(80):
        claude_log(40, f"session {number}").write(home)
    told: list[int] = []
    for done in (2, 5):
        feed = start(*command)
        feed.until("progress", lambda progress, done=done: progress["done"] >= done)  # type: ignore[misc]
        workers = _children(feed.process.pid)
        feed.kill()
        assert _waits_for(lambda workers=workers: not any(_runs(worker) for worker in workers))  # type: ignore[misc]
        told += [line["seq"] for line in feed.said if "seq" in line]
    feed = start(*command)
    feed.until("ready")
    told += [line["seq"] for line in feed.said if "seq" in line]
    store = feed.store()
    entries = store.journal()
    assert [entry.kind for entry in entries] == ["session.created"] * 80
    assert len({entry.session for entry in entries}) == 80
    assert told == sorted(told)
    assert told[-1] == entries[-1].seq
    assert sessions_of(store, home, tmp_path) == ""
    store.close()


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_what_goes_wrong_is_told_and_tried_again(start: Callable[..., Feed], tmp_path: Path) -> None:
    """In a sentence, and with pauses; what is told later is told as if nothing had been."""
    claude_log(2).write(tmp_path / "home")
    (tmp_path / "store.db").mkdir()
    feed = start()
    assert "cannot be written" in feed.until("error")
    time.sleep(0.5)
    assert feed._lines.empty(), "it waits before it tries again"
    (tmp_path / "store.db").rmdir()
    feed.until("ready")
    assert feed.end() < 1.5


def test_a_store_that_another_program_writes(start: Callable[..., Feed], tmp_path: Path) -> None:
    """It waits for its turn, and ends meanwhile when it should."""
    claude_log(2).write(tmp_path / "home")
    SqliteStore(tmp_path / "store.db", machine=("other", "other")).close()
    writer = SqliteStore(tmp_path / "store.db", machine=("other", "other"))
    with writer.alone():
        feed = start()
        time.sleep(1.5)
        assert feed.process.poll() is None
        assert feed.end() < 1.5
        feed = start()
        time.sleep(1.0)
    feed.until("ready")
    writer.close()


def test_it_is_idle_when_nothing_happens(start: Callable[..., Feed], tmp_path: Path) -> None:
    """It takes hardly any time from others."""
    write_home(tmp_path / "home")
    feed = start()
    feed.until("ready")
    time.sleep(1.5)
    before = _seconds_of(feed.process.pid)
    time.sleep(3)
    assert _seconds_of(feed.process.pid) - before <= 0.06


def _seconds_of(pid: int) -> float:
    path = Path(f"/proc/{pid}/stat")
    if not path.exists():
        pytest.skip("the system does not tell")
    fields = path.read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
