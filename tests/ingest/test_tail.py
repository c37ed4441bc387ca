"""A session that grows: every line is stored at once, and in the end the store equals a new one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from unspool.agents import AGENTS
from unspool.ingest.sync import Syncer
from unspool.ingest.tail import SessionTail
from unspool.ingest.watch import Watcher
from unspool.library import Library
from unspool.search.query import parse
from unspool.store import Store
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.filters import SessionFilter
from unspool.testing import ClaudeLog, CodexLog, GeminiLog, call

from ..store.contents import MACHINE, contents, difference, fresh, synced
from ..store.homes import append, log_of, rest_of


def equals_fresh(store: Store, home: Path) -> bool:
    """Whether the store equals what reading returns."""
    library = Library(home)
    fresh = {session.id: msgspec.json.encode(session) for ref in library.refs() for session in library.load_all(ref)}
    return fresh == {
        row.name: msgspec.json.encode(store.messages.load_session(row.id)) for row in store.sessions.select()
    }


def claude_lines() -> list[bytes]:
    """A session with a rewind, a rejection and calls, long enough for several blocks."""
    log = ClaudeLog()
    log.user("start", "start")
    log.model("started", name="started")
    for turn in range(60):
        log.user(f"prompt{turn}")
        log.model(call(f"c{turn}", command=f"echo {turn}"))
        log.result(f"c{turn}", f"output{turn}")
        log.model(f"answer{turn}")
    log.user("rewound", parent="started")
    log.model("after the rewind")
    return log.lines


def codex_lines() -> list[bytes]:
    """A thread with calls and results."""
    log = CodexLog()
    for turn in range(50):
        log.turn(f"prompt{turn}", f"answer{turn}")
        log.call(f"c{turn}", command=["bash", "-c", f"echo {turn}"])
        log.output(f"c{turn}", f"output{turn}")
    return log.lines


def gemini_lines() -> list[bytes]:
    """A chat with a rewind."""
    log = GeminiLog()
    for turn in range(40):
        log.user(f"u{turn}", f"prompt{turn}")
        log.model(f"m{turn}", f"answer{turn}")
    log.rewind("u30")
    log.user("again", "another way")
    log.model("answered", "done")
    return log.lines


def place_of(agent: str, home: Path) -> Path:
    """Where an agent's builder writes."""
    builders: dict[str, type[ClaudeLog | CodexLog | GeminiLog]] = {
        "claude": ClaudeLog, "codex": CodexLog, "gemini": GeminiLog,
    }  # fmt: skip
    path = builders[agent]().write(home)
    path.unlink()
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "lines"), [("claude", claude_lines()), ("codex", codex_lines()), ("gemini", gemini_lines())]
)
def test_lines_are_stored_one_by_one(agent: str, lines: list[bytes], tmp_path: Path, store: Store) -> None:
    """Appended lines are stored at once; reading the whole session adds what only it can find."""
    home = tmp_path / "home"
    path = place_of(agent, home)
    path.write_bytes(b"".join(line + b"\n" for line in lines[:20]))
    Syncer(store, home).run()
    opened = AGENTS[agent].open(next(home.iterdir()))
    (ref,) = opened.refs()
    live = SessionTail(store, opened, ref, store.sessions.from_source(agent, ref.id)[ref.id])
    for line in lines[20:]:
        with open(path, "ab") as file:
            file.write(line + b"\n")
        with store.transaction():
            live.ingest()
    ((messages, around),) = store.database.rows("SELECT messages, around FROM session")
    assert around == "", "it has to be read as a whole"
    assert messages == len(next(Library(home).load_all(ref)).messages)
    Syncer(store, home).run()
    assert equals_fresh(store, home)


def test_an_incomplete_line_is_not_stored(tmp_path: Path, store: Store) -> None:
    """A line that is being written is not damage."""
    log = ClaudeLog()
    log.user("hello")
    path = log.write(tmp_path / "home")
    Syncer(store, tmp_path / "home").run()
    home = AGENTS["claude"].open(tmp_path / "home" / ".claude")
    (ref,) = home.refs()
    live = SessionTail(store, home, ref, store.sessions.from_source("claude", ref.id)[ref.id])
    log.model("a long answer")
    line = log.lines[-1] + b"\n"
    for piece, count in ((line[:30], 0), (line[30:], 1)):
        with open(path, "ab") as file:
            file.write(piece)
        with store.transaction():
            assert live.ingest() == count
    Syncer(store, tmp_path / "home").run()
    assert equals_fresh(store, tmp_path / "home")


def test_the_watcher_reads_the_whole_session_later(tmp_path: Path, store: Store) -> None:
    """Appended lines are stored at once, and after a quiet moment the whole record; other changes, too."""
    home = tmp_path / "home"
    log = ClaudeLog()
    log.user("hello")
    path = log.write(home)
    other = CodexLog()
    other.turn("codex prompt", "codex answer")
    gone = other.write(home)
    Syncer(store, home).run()
    follower = Watcher(store, home)
    log.model(call("c1", command="sleep 5"))
    path.write_bytes(log.data)
    gone.unlink()
    follower.ingest({path, gone})
    assert store.search.run(parse("sleep")).found[0].hits[0].field == "input"
    follower._schedule.due = 0.0
    follower.ingest(set())
    (row,) = store.sessions.select(SessionFilter(agent="claude"))
    assert store.messages.load_session(row.id).orphans[0].tool_use_id == "c1"
    assert [row.gone_at is not None for row in store.sessions.select(SessionFilter(agent="codex"))] == [True]
    seqs = [entry.seq for entry in store.changes.since()]
    assert seqs == sorted(set(seqs))


@pytest.mark.parametrize(
    ("agent", "lines"), [("claude", claude_lines()), ("codex", codex_lines()), ("gemini", gemini_lines())]
)
def test_a_new_session_is_stored_at_once(agent: str, lines: list[bytes], tmp_path: Path, store: Store) -> None:
    """It does not wait for the full sync, which then finds no changes."""
    home = tmp_path / "home"
    path = place_of(agent, home)
    follower = Watcher(store, home)
    follower._schedule.next_full_sync = float("inf")
    path.write_bytes(b"".join(line + b"\n" for line in lines[:10]))
    follower.ingest({path.parent})
    assert [entry.kind for entry in store.changes.since()] == ["session.created"]
    with open(path, "ab") as file:
        file.write(b"".join(line + b"\n" for line in lines[10:20]))
    follower.ingest({path})
    assert store.changes.since()[-1].kind == "messages.appended"
    for _ in range(2):
        follower._schedule.due = 0.0
        follower.ingest(set())
        assert equals_fresh(store, home)
    rows = [msgspec.json.decode(entry.data) for entry in store.changes.since()]
    assert sum(row.get("count", 0) for row in rows) == store.sessions.select()[0].messages, "each message is told once"


def test_other_files_are_ignored(tmp_path: Path, store: Store) -> None:
    """A file without a conversation, a warm-up session, and a file of another program."""
    home = tmp_path / "home"
    follower = Watcher(store, home)
    log, warm = ClaudeLog("empty"), ClaudeLog("empty", agent="w1")
    log.record({"type": "summary", "summary": "a title", "leafUuid": log.id("x")})
    warm.user("Warmup")
    warm.model("ready")
    paths = {log.write(home), warm.write(home), home / ".claude" / "todos" / "a.json"}
    follower._find_homes()
    follower._schedule.next_full_sync = float("inf")
    follower.ingest(paths)
    assert store.sessions.select() == []
    follower._schedule.due = 0.0
    follower.ingest(set())
    assert store.sessions.select() == []


def test_a_busy_session_is_read_as_a_whole_after_a_limit(tmp_path: Path, store: Store) -> None:
    """More lines delay that, but not forever."""
    home = tmp_path / "home"
    log = ClaudeLog()
    log.user("hello")
    path = log.write(home)
    Syncer(store, home).run()
    follower = Watcher(store, home)
    follower._schedule.next_full_sync = float("inf")
    dues = []
    for number in range(3):
        log.model(f"answer {number}")
        path.write_bytes(log.data)
        follower.ingest({path})
        assert follower._schedule.due is not None
        dues.append(follower._schedule.due)
    assert follower._schedule.deadline is not None
    assert dues == sorted(dues)
    follower._schedule.deadline = follower._schedule.due = 0.0
    follower.ingest({path})
    assert equals_fresh(store, home)


def test_a_kill_before_the_whole_session_is_read(tmp_path: Path, store: Store) -> None:
    """Another program finds that the session was not read as a whole, though no file has changed."""
    home = tmp_path / "home"
    log = ClaudeLog()
    log.user("hello")
    path = log.write(home)
    Syncer(store, home).run()
    opened = AGENTS["claude"].open(home / ".claude")
    (ref,) = opened.refs()
    live = SessionTail(store, opened, ref, store.sessions.from_source("claude", ref.id)[ref.id])
    log.model(call("c1", command="ls"))
    path.write_bytes(log.data)
    with store.transaction():
        live.ingest()
    assert not equals_fresh(store, home)
    assert Syncer(store, home).run().changed == 1
    assert equals_fresh(store, home)


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_another_process_stores_lines_of_a_followed_session(agent: str, tmp_path: Path, store: Store) -> None:
    """A command that syncs while a server watches: no text is indexed twice, and the session is followed again."""
    home = tmp_path / "home"
    path = log_of(agent, 3).write(home)
    synced(store, home)
    watcher = Watcher(store, home)

    def grow(turns: int) -> None:
        append(path, rest_of(log_of(agent, turns), log_of(agent, turns - 1)))

    for turns in (4, 6, 8):
        grow(turns)
        watcher.ingest({path})
        assert path in watcher._tails
        grow(turns + 1)
        other = Store(SqliteDatabase(Path(store.location), machine=MACHINE))
        synced(other, home)
        other.close()
        watcher.ingest({path})
        synced(store, home)
        assert difference(contents(store), fresh(tmp_path, home)) == ""


def test_a_location_that_is_missing(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default ones are not read instead: they may be those of somebody else."""
    monkeypatch.setenv("HOME", str(tmp_path / "default"))
    log_of("claude").write(tmp_path / "default")
    log_of("codex").write(tmp_path / "given")
    watcher = Watcher(store, tmp_path / "given", verifies=True)
    (tmp_path / "given").rename(tmp_path / "elsewhere")
    verified: list[object] = []
    monkeypatch.setattr(watcher._health, "continue_briefly", lambda *homes: verified.append(homes))
    watcher.read_all()
    watcher.verify_briefly()
    watcher._find_homes()
    watcher.ingest(set())
    assert (store.sessions.select(), verified) == ([], [])
    (tmp_path / "elsewhere").rename(tmp_path / "given")
    watcher._find_homes()
    watcher.read_all()
    watcher.verify_briefly()
    assert [row.agent for row in store.sessions.select()] == ["codex"]
    assert verified == [(tmp_path / "given",)]
