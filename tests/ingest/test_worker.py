"""The worker process: real files, a real process, and its reports."""

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
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from unspool.ingest import sync_schedule
from unspool.ingest import worker as feeding
from unspool.ingest.watch import Watcher
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.filters import SessionFilter
from unspool.store.store import Store
from unspool.testing import ClaudeLog

from ..limits import limited
from ..store.contents import Contents, contents, difference, fresh
from ..store.homes import AGENTS, append, claude_log, codex_log, log_of, rest_of, write_home
from ..waiting import PATIENCE, is_running, wait_until

_ROOT = Path(__file__).parents[2]
_EACH = """
import os, signal, threading
from pathlib import Path
from unspool.ingest import reader_pool, sync, sync_schedule, transactions, watch, worker
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.store import Store
worker._REPORT_SECONDS = transactions._BATCH_SECONDS = 0.0
"""
"""Each session is reported and committed on its own."""
_SHARING = """
sync.WORTH_IT = reader_pool._AT_ONCE = 1
os.cpu_count = lambda: 2
read = reader_pool._read
def marked(home, agent, task, parts):
    (Path(os.environ["UNSPOOL_DATA"]) / f"worker-{os.getpid()}").touch()
    return read(home, agent, task, parts)
reader_pool._read = marked
"""
"""Workers read even small homes; each records its process id."""
_MAIN = "\nworker.main()\n"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it uses signals")


class Feed:
    """The process and its reports."""

    def __init__(self, folder: Path, *lines: str, within: tuple[str, ...] = ()) -> None:
        """`lines` of a program to run before it, `within` a command that runs it."""
        self.place = folder / "store.db"
        self.data = folder / "data"
        self.errors = open(folder / "errors.txt", "w+b")  # noqa: SIM115 - it lives as long as the process
        command = ("-c", "".join((_EACH, *lines, _MAIN))) if lines else ("-m", "unspool.ingest.worker")
        self.process = subprocess.Popen(
            [*within, sys.executable, *command, "--store", str(self.place), "--home", str(folder / "home")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            env={**os.environ, "UNSPOOL_DATA": str(self.data)},
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
        """Wait for a report; returns its content."""
        while line := self._next(key):
            self.said.append(json.loads(line))
            if key in self.said[-1] and fits(self.said[-1][key]):
                return self.said[-1][key]
        raise AssertionError(f"it ended without {key!r}: {self.said[-3:]} {self.complaints()}")

    def _next(self, key: str) -> bytes:
        try:
            return self._lines.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"it never says {key!r}: {self.said[-3:]} {self.complaints()}") from None

    def everything(self) -> list[dict[str, Any]]:
        """All its reports, after it has exited."""
        self._listener.join(PATIENCE)
        while line := self._lines.get(timeout=PATIENCE):
            self.said.append(json.loads(line))
        return self.said

    def complaints(self) -> str:
        """What it wrote to stderr."""
        self.errors.seek(0)
        return self.errors.read().decode()

    def end(self) -> None:
        """Close its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.has_ended()

    def has_ended(self) -> None:
        """By itself, and without an error."""
        assert self.process.wait(PATIENCE) == 0

    def dies(self) -> None:
        """Killed by itself, at a line that a test has chosen."""
        assert self.process.wait(PATIENCE) == -signal.SIGKILL

    def kill(self) -> None:
        """Without a chance to clean up."""
        self.process.kill()
        self.process.wait()
        self._listener.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def workers(self) -> list[int]:
        """Its worker processes."""
        return [int(path.name.removeprefix("worker-")) for path in self.data.glob("worker-*")]

    def store(self) -> Store:
        """Another view of the same store."""
        return Store(SqliteDatabase(self.place, machine=("another", "another"), read_only=True))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Feed]]:
    """Starts workers of one home; they end with the test."""
    started: list[Feed] = []

    def begin(*lines: str, within: tuple[str, ...] = ()) -> Feed:
        started.append(Feed(tmp_path, *lines, within=within))
        return started[-1]

    yield begin
    for feed in started:
        feed.kill()
        complaints = feed.complaints()
        feed.errors.close()
        assert complaints == ""


def held(store: Store) -> Contents:
    """The contents of a store at one moment, while a worker runs."""
    ((store.database.machine,),) = store.database.rows("SELECT machine FROM session LIMIT 1")
    with store.snapshot():
        return contents(store)


def comes_to_hold(store: Store, folder: Path, home: Path) -> None:
    """Wait until a store holds what a new one would."""
    expected = fresh(folder, home)
    wait_until(
        lambda: difference(held(store), expected) == "",
        "the store to be as a new one",
        detail=lambda: difference(held(store), expected),
    )


def ends(*workers: int) -> None:
    """Wait until other processes are gone."""
    wait_until(lambda: not any(map(is_running, workers)), f"the end of {workers}")


# --- following --------------------------------------------------------------------------------------------------------


def test_the_worker_reads_everything_and_then_watches(start: Callable[..., Feed], tmp_path: Path) -> None:
    """Every change is reported once it can be read."""
    home = tmp_path / "home"
    paths = write_home(home)
    feed = start()
    feed.until("ready")
    assert {"done", "total", "bytes_done", "bytes_total"} == next(
        line["progress"].keys() for line in feed.said if "progress" in line
    )
    store = feed.store()
    assert store.changes.last_seq() == [line["seq"] for line in feed.said if "seq" in line][-1] == 6
    for agent in AGENTS:
        seen = store.changes.last_seq()
        with open(paths[agent], "ab") as file:
            file.write(rest_of(log_of(agent, 4), log_of(agent, 3)))
        feed.until("seq", lambda seq, agent=agent, seen=seen: has_appended(store, agent, seen, seq))  # type: ignore[misc]
        assert store.changes.last_seq() >= feed.said[-1]["seq"]
    seqs = [line["seq"] for line in feed.said if "seq" in line]
    assert seqs == sorted(set(seqs))
    store.close()
    feed.end()


def has_appended(store: Store, agent: str, seen: int, told: int) -> bool:
    """Whether new messages of an agent's session were reported. Other reports may come before."""
    sessions = {row.id for row in store.sessions.select(SessionFilter(agent=agent))}
    kinds = [entry.kind for entry in store.changes.since(seen) if entry.session in sessions and entry.seq <= told]
    return "messages.appended" in kinds


def test_a_new_session_is_stored_at_once(start: Callable[..., Feed], tmp_path: Path) -> None:
    """A new file, also in a new folder, a sub-agent, and lines appended to several sub-agents."""
    home = tmp_path / "home"
    claude_log(2, "parent").write(home)
    feed = start()
    feed.until("ready")
    store = feed.store()

    def come(count: int, filter: SessionFilter | None = None, messages: int = 0) -> None:
        wait_until(
            lambda: sum(row.messages >= messages for row in store.sessions.select(filter)) == count,
            f"{count} sessions {filter} of {messages} messages",
        )

    codex_log(1).write(home)
    come(2)
    path = claude_log(1, "second").write(home)
    come(3)
    moved = path.parent.with_name("-home-dev-other") / path.name
    log = claude_log(1, "third")
    moved.parent.mkdir()
    moved.with_name(f"{log.session}.jsonl").write_bytes(log.data)
    come(4)
    agents = [ClaudeLog("parent", agent=f"a{number}") for number in range(3)]
    for agent in agents:
        agent.user("look", f"look {agent.agent}")
        agent.model("looking", name=f"looking {agent.agent}")
        agent.write(home)
    come(3, SessionFilter(kind="subagent"))
    for agent in agents:
        agent.user("more", f"more {agent.agent}")
        agent.write(home)
    come(3, SessionFilter(kind="subagent"), 3)
    wait_until(
        lambda: "subagents.changed" in [entry.kind for entry in store.changes.since()], "the sub-agents to be told"
    )
    comes_to_hold(store, tmp_path, home)
    created = [entry.session for entry in store.changes.since() if entry.kind == "session.created"]
    assert len(created) == len(set(created)) == 7
    store.close()


def test_the_worker_waits_for_the_first_agent(start: Callable[..., Feed], tmp_path: Path) -> None:
    """None has been started yet; there may not even be a home directory."""
    feed = start("watch._DISCOVERY_SECONDS = 0.1")
    feed.until("ready")
    store = feed.store()
    for count, agent in enumerate(("claude", "codex"), 1):
        log_of(agent, 2).write(tmp_path / "home")
        feed.until("seq", lambda _, count=count: len(store.sessions.select()) == count)  # type: ignore[misc]
    store.close()
    feed.end()


def test_an_idle_worker_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It wakes up now and then, without queries and without reading files."""
    monkeypatch.setattr(sync_schedule, "_FULL_SYNC_SECONDS", float("inf"))
    home = tmp_path / "home"
    write_home(home)
    database = SqliteDatabase(tmp_path / "store.db", machine=("test", "test"))
    store = Store(database)
    follower = Watcher(store, home)
    follower.read_all()
    stop = threading.Event()
    asked: list[str] = []
    woken: list[float] = []
    changes = follower._changes

    def count(stop: threading.Event | None) -> Iterator[Any]:
        for found in changes(stop):
            assert found == []
            woken.append(time.monotonic())  # a lower bound: a busy machine only adds to it
            if len(woken) == 2:
                # The first time it looks at everything once more.
                database._connection.set_trace_callback(asked.append)
            elif len(woken) == 5:
                assert stop is not None
                stop.set()
            yield found

    monkeypatch.setattr(follower, "_changes", count)
    assert list(follower.follow(stop)) == []
    assert asked == []
    # A machine that is busy can only make this longer.
    assert woken[-1] - woken[0] > 0.7, "it wakes up no more than a few times in a second"
    store.close()


# --- a system that does not report changes ----------------------------------------------------------------------------


_QUICK = "from unspool.ingest import file_changes; file_changes._POLL_SECONDS = 0.0\n"


@pytest.mark.parametrize("name", ["max_inotify_watches", "max_inotify_instances"])
def test_a_limit_of_the_system_makes_updates_slow(name: str, start: Callable[..., Feed], tmp_path: Path) -> None:
    """The worker says so, compares the files instead, and finds everything."""
    home = tmp_path / "home"
    paths = write_home(home)
    within = limited(name, 4 if name == "max_inotify_watches" else 0)
    feed = start(_QUICK, "sync_schedule._FULL_SYNC_SECONDS = float('inf')", within=within)
    assert name.removeprefix("max_inotify_") in feed.until("slow")
    with closing(feed.store()) as store:
        for agent in AGENTS:
            with open(paths[agent], "ab") as file:
                file.write(rest_of(log_of(agent, 4), log_of(agent, 3)))
        claude_log(1, "new").write(home)
        comes_to_hold(store, tmp_path, home)
    feed.end()


_SAYS_WHEN_IT_WATCHES = """
watch_folders = file_changes.watch
def reported(*arguments, **options):
    for count, changes in enumerate(watch_folders(*arguments, **options)):
        if count == 0:
            print('{"watches": true}', flush=True)
        yield changes
file_changes.watch = reported
"""


def test_a_limit_that_is_reached_later_makes_updates_slow(start: Callable[..., Feed], tmp_path: Path) -> None:
    """A folder that was made while the others were watched cannot be watched any more, which is not reported."""
    home = tmp_path / "home"
    claude_log(2).write(home)
    folders = sum(path.is_dir() for path in home.rglob("*"))
    quick = "sync_schedule._FULL_SYNC_SECONDS = sync_schedule._FULL_SYNC_PAUSE = 0; file_changes._GRACE_WAKEUPS = 1"
    feed = start(_QUICK, quick, _SAYS_WHEN_IT_WATCHES, within=limited("max_inotify_watches", folders))
    # Before that, the new folder would be among those that watching begins with.
    feed.until("watches")
    with closing(feed.store()) as store:
        made = claude_log(2, "new").write(tmp_path / "made")
        path = home / ".claude/projects/-new" / made.name
        path.parent.mkdir()
        made.rename(path)
        comes_to_hold(store, tmp_path, home)
        # What the first sync finds, and the first change in a folder that was reported, may have come before watching.
        for turns in (3, 4, 5):
            append(path, rest_of(claude_log(turns, "new"), claude_log(turns - 1, "new")))
            comes_to_hold(store, tmp_path, home)
        assert feed.until("slow") == f"the system does not report changes to {path}"
    feed.end()


_SAYS_WHEN_IT_HAS_NO_HOME = """
watch._DISCOVERY_SECONDS = 0.05
pause = watch.pause
def reported(*arguments):
    print('{"has no home": true}', flush=True)
    pause(*arguments)
watch.pause = reported
"""


def test_a_home_that_disappears_and_returns(start: Callable[..., Feed], tmp_path: Path) -> None:
    """A drive that is unmounted: nothing is lost, and what was written elsewhere in the meantime is read."""
    home, away = tmp_path / "home", tmp_path / "away"
    paths = write_home(home)
    feed = start(_SAYS_WHEN_IT_HAS_NO_HOME)
    feed.until("ready")
    with closing(feed.store()) as store:
        before = held(store)
        home.rename(away)
        feed.until("has no home")
        assert difference(contents(store, gone=True), before) == ""
        for agent in AGENTS:
            path = away / paths[agent].relative_to(home)
            path.write_bytes(log_of(agent, 4).data)
        away.rename(home)
        comes_to_hold(store, tmp_path, home)
        claude_log(1, "new").write(home)
        comes_to_hold(store, tmp_path, home)
    feed.end()
    assert not any("error" in line for line in feed.everything())


# --- failures ---------------------------------------------------------------------------------------------------------


def test_failures_are_reported_and_retried(start: Callable[..., Feed], tmp_path: Path) -> None:
    """In a sentence; later reports are as usual."""
    claude_log(2).write(tmp_path / "home")
    (tmp_path / "store.db").mkdir()
    feed = start("worker._RETRY_SECONDS = (0.05,)")
    assert "cannot be written" in feed.until("error")
    (tmp_path / "store.db").rmdir()
    feed.until("ready")
    feed.end()


def test_retries_are_delayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Longer with each failure; and stopping does not wait for it."""
    waited: list[float | None] = []

    class Asked(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout)
            if len(waited) == 8:
                self.set()
            return self.is_set()

    with pytest.raises(feeding.WorkerStopped):
        feeding._Worker(str(tmp_path), [], False, Asked()).run()
    assert waited == [1, 2, 5, 10, 30, 60, 60, 60]
    assert ["error" in json.loads(line) for line in capsys.readouterr().out.splitlines()] == [True] * 8


# --- ending -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["input", "signals"])
def test_the_worker_can_stop_at_every_line(how: str, tmp_path: Path) -> None:
    """While it starts, reads, watches, cleans up or exits: without a message, and with a correct store."""
    home = tmp_path / "home"
    claude_log(2).write(home)
    command = [sys.executable, "-m", "tests.ingest.worker_ends", how, str(tmp_path / "store.db"), str(home)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, timeout=PATIENCE)
    assert done.stderr == ""
    assert done.returncode == 0
    assert int(done.stdout.splitlines()[-1]) > 60, "lines at which it was ended"
    with closing(Store(SqliteDatabase(tmp_path / "store.db", machine=("another", "another"), read_only=True))) as store:
        assert difference(held(store), fresh(tmp_path, home)) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="workers help only there")
def test_the_worker_stops_during_the_first_read(start: Callable[..., Feed], tmp_path: Path) -> None:
    """And leaves no worker behind, even one that never finishes reading."""
    for number in range(8):
        claude_log(3, f"session {number}").write(tmp_path / "home")
    feed = start(
        _SHARING,
        "reader_pool._read = lambda *task: threading.Event().wait() if task[2].position > 3 else marked(*task)",
    )
    feed.until("progress", lambda progress: progress["done"] == 3)
    assert feed.workers()
    feed.end()
    assert {"ready": True} not in feed.everything()
    ends(*feed.workers())


_STUCK = """
rows = SqliteDatabase.rows
def stuck(self, sql, *values):
    if sql == "COMMIT" and self.rows("SELECT 1 FROM session"):
        print('{"commits": true}', flush=True)
        threading.Event().wait()
    return rows(self, sql, *values)
SqliteDatabase.rows = stuck
"""


@pytest.mark.parametrize("how", ["input", "SIGTERM", "SIGINT"])
def test_the_worker_stops_despite_a_blocking_operation(how: str, start: Callable[..., Feed], tmp_path: Path) -> None:
    """A disk that hangs in the middle of a commit: it exits, and the next worker does the rest."""
    claude_log(2).write(tmp_path / "home")
    feed = start(_STUCK)
    feed.until("commits")
    if how == "input":
        feed.end()
    else:
        feed.process.send_signal(signal.Signals[how])
        feed.has_ended()
    feed = start()
    feed.until("ready")
    with closing(feed.store()) as store:
        comes_to_hold(store, tmp_path, tmp_path / "home")


_WAITS = """
exclusive = SqliteDatabase.exclusive
def reported(self, *patience):
    print('{"waits": true}', flush=True)
    return exclusive(self, *patience)
SqliteDatabase.exclusive = reported
"""


def test_a_store_that_is_locked_by_another_program(start: Callable[..., Feed], tmp_path: Path) -> None:
    """It waits for the lock, and can be stopped meanwhile."""
    claude_log(2).write(tmp_path / "home")
    writer = Store(SqliteDatabase(tmp_path / "store.db", machine=("other", "other")))
    with writer.exclusive():
        feed = start(_WAITS)
        feed.until("waits")
        feed.end()
        assert feed.everything() == [{"waits": True}]
        feed = start(_WAITS)
        feed.until("waits")
    feed.until("ready")
    assert not any("error" in line for line in feed.said)
    writer.close()


_KILLED = """
commits = 0
rows = SqliteDatabase.rows
def killed(self, sql, *values):
    global commits
    if sql == "COMMIT":
        commits += 1
    if sql == "COMMIT" and commits == {number} and not {after}:
        os.kill(os.getpid(), signal.SIGKILL)
    found = rows(self, sql, *values)
    if sql == "COMMIT" and commits == {number}:
        os.kill(os.getpid(), signal.SIGKILL)
    return found
SqliteDatabase.rows = killed
"""
"""Killed at a commit, when it is made or when it is not made yet."""


@pytest.mark.parametrize(
    "lines",
    [pytest.param(_SHARING, marks=pytest.mark.skipif(sys.platform != "linux", reason="workers help only there")), ""],
    ids=["with workers", "alone"],
)
def test_the_worker_recovers_from_a_kill(lines: str, start: Callable[..., Feed], tmp_path: Path) -> None:
    """Reports stay true, nothing is reported twice, and its workers do not outlive it."""
    home = tmp_path / "home"
    count = 12
    for number in range(count):
        claude_log(2, f"session {number}").write(home)
    told: list[int] = []
    # The first commit is that of the tables.
    for number, after in ((3, False), (4, True)):
        feed = start(lines, _KILLED.format(number=number, after=after))
        feed.dies()
        told += [line["seq"] for line in feed.everything() if "seq" in line]
        assert bool(feed.workers()) == bool(lines)
        ends(*feed.workers())
        with closing(feed.store()) as store:
            assert max(told) <= store.changes.last_seq() < count
    feed = start(lines)
    feed.until("ready")
    told += [line["seq"] for line in feed.said if "seq" in line]
    with closing(feed.store()) as store:
        entries = store.changes.since()
        assert [entry.kind for entry in entries] == ["session.created"] * count
        assert len({entry.session for entry in entries}) == count
        assert told == sorted(told)
        assert told[-1] == entries[-1].seq
        comes_to_hold(store, tmp_path, home)
