"""Bytes that were archived stay, whatever happens to the file, and what is restored was on the disk once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unspool.ingest.archive import ArchivedOriginals
from unspool.ingest.history import History
from unspool.ingest.push import push_archived
from unspool.ingest.rebuild import copy_readable
from unspool.ingest.restore import restore_session
from unspool.ingest.sync import Syncer
from unspool.ingest.verify import Verifier
from unspool.ingest.watch import Watcher
from unspool.store import Store
from unspool.store.filters import SessionFilter
from unspool.testing import ClaudeLog, call

from ..file_faults import Call, FileFaults
from ..store.contents import contents, difference, fresh, new_store, synced
from ..store.homes import AGENTS, append, claude_log, gemini_log, log_of, put

Rewrite = Callable[[Path], None]
MEGABYTE = 1 << 20


def restored(store: Store, name: str, folder: Path, version: int | None = None) -> bytes:
    """The bytes of a session's only file."""
    ((path, _, _),) = restore_session(store, store.sessions.find(name), folder / f"restored-{version}", version)
    return path.read_bytes()


def in_place(path: Path, data: bytes) -> None:
    """Write over a file, and set its time back as if nothing had happened."""
    facts = path.stat()
    with open(path, "r+b") as file:
        file.truncate(len(data))
        file.write(data)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def edit(path: Path) -> None:
    """Exchange words in the middle by others of the same length."""
    in_place(path, path.read_bytes().replace(b"number 1", b"NUMBER 1"))


def lengthen(path: Path) -> None:
    """Insert words in the middle."""
    in_place(path, path.read_bytes().replace(b"number 1", b"the number 1"))


def edit_and_append(path: Path) -> None:
    """Exchange words in the middle, and add a line as an agent does."""
    in_place(path, path.read_bytes().replace(b"number 1", b"NUMBER 1") + path.read_bytes().splitlines(True)[-1])


def truncate(path: Path) -> None:
    """Remove the last lines."""
    in_place(path, b"".join(path.read_bytes().splitlines(True)[:-3]))


def shorten(path: Path) -> None:
    """Remove words from the middle."""
    in_place(path, path.read_bytes().replace(b"number 1", b"1"))


def replace(path: Path) -> None:
    """Put another file with the same size and time in its place."""
    facts, new = path.stat(), path.with_name("new")
    new.write_bytes(path.read_bytes().replace(b"number 1", b"NUMBER 1"))
    os.utime(new, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    new.replace(path)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    ("rewrite", "change"),
    [
        (edit, "edited"),
        (replace, "edited"),
        (lengthen, "rewritten"),
        (shorten, "rewritten"),
        (edit_and_append, "rewritten"),
        (truncate, "truncated"),
    ],
)
def test_every_rewrite_makes_a_version(
    store: Store, home: Path, tmp_path: Path, agent: str, rewrite: Rewrite, change: str
) -> None:
    """Although the time of the file is the same. Both versions can be restored, and the store is like a new one."""
    path = log_of(agent, 4).write(home)
    synced(store, home)
    (session,) = store.sessions.select()
    before = path.read_bytes()
    rewrite(path)
    assert path.read_bytes() != before
    synced(store, home)
    history = History(store, session)
    assert [version.change for version in history.versions] == ["created", change]
    assert [version.size for version in history.versions] == [len(before), path.stat().st_size]
    assert restored(store, session.name, tmp_path, 1) == before
    assert restored(store, session.name, tmp_path, 2) == path.read_bytes()
    assert restored(store, session.name, tmp_path) == path.read_bytes()
    assert difference(contents(store), fresh(tmp_path, home)) == ""


def test_a_growing_file_has_its_earlier_versions(store: Store, home: Path, tmp_path: Path) -> None:
    """They are parts of its bytes, and need no space."""
    states = []
    for turns in (2, 3, 5):
        path = log_of("claude", turns).write(home)
        states.append(path.read_bytes())
        synced(store, home)
        synced(store, home)
    (session,) = store.sessions.select()
    versions = History(store, session).versions
    assert [(version.number, version.change) for version in versions] == [
        (1, "created"),
        (2, "appended"),
        (3, "appended"),
    ]
    assert versions[0].at is not None
    assert versions[-1].at is not None
    assert versions[0].at < versions[-1].at
    assert [restored(store, session.name, tmp_path, number) for number in (1, 2, 3)] == states
    assert len(store.database.rows("SELECT 1 FROM chunk")) == 1


def test_many_versions_need_little_space(store: Store, home: Path, tmp_path: Path) -> None:
    """An agent that rewrites its file at every save. Each version is stored as its difference to the next."""
    path = log_of("gemini", 60).write(home)
    states = []
    for number in range(40):
        path.write_bytes(path.read_bytes().replace(b"chats", b"chat") + b'{"more":"%d"}\n' % number)
        in_place(path, path.read_bytes().replace(b'"lines', b'"line %d s' % number, 1))
        states.append(path.read_bytes())
        synced(store, home)
    (session,) = store.sessions.select()
    ((largest, total),) = store.database.rows("SELECT max(length(data)), sum(length(data)) FROM chunk")
    assert total < 2 * largest
    for number in (1, 20, 40):
        assert restored(store, session.name, tmp_path, number) == states[number - 1]
    assert len(History(store, session).versions) == 40


def test_push_copies_earlier_versions(store: Store, home: Path, tmp_path: Path) -> None:
    """Of a session whose file is gone: what it was before it was rewritten, and when it grew."""
    path = log_of("claude", 4).write(home)
    states = [path.read_bytes()]
    for change in (lengthen, edit_and_append, truncate):
        synced(store, home)
        change(path)
        states.append(path.read_bytes())
    synced(store, home)
    append(path, states[-1].splitlines(True)[-1])
    states.append(path.read_bytes())
    synced(store, home)
    log_of("claude", 1, "another").write(home)
    path.unlink()
    synced(store, home)
    team = new_store(tmp_path / "team.db")
    assert push_archived(store, team) == 1
    ours, theirs = (History(one, one.sessions.find(path.stem)).versions for one in (store, team))
    assert theirs == ours
    assert [restored(team, path.stem, tmp_path, number) for number in range(1, 6)] == states
    assert Verifier(team).run().faults == []
    team.close()


def test_a_touched_file_is_not_read_again(store: Store, home: Path) -> None:
    """Its bytes are the same, whatever its times and its inode say."""
    path = log_of("claude").write(home)
    synced(store, home)
    os.utime(path)
    assert synced(store, home).changed == 0
    replace(path)
    path.write_bytes(path.read_bytes().replace(b"NUMBER 1", b"number 1"))
    assert synced(store, home).changed == 0
    with FileFaults(home).active() as calls:
        synced(store, home)
    assert {call.kind for call in calls.calls} <= {"stat", "scandir"}


def test_a_file_that_holds_another_session_now(store: Store, home: Path, tmp_path: Path) -> None:
    """The old session is restored with its own bytes, and has the raw text of its own messages."""
    old, new = gemini_log(3, "old"), gemini_log(5, "new")
    path = old.write(home)
    synced(store, home)
    (first,) = store.sessions.select()
    path.write_bytes(new.data)
    synced(store, home)
    (second,) = store.sessions.select(SessionFilter(is_gone=False))
    assert second.name != first.name
    assert restored(store, first.name, tmp_path / "old") == old.data
    assert restored(store, second.name, tmp_path / "new") == new.data
    assert [version.change for version in History(store, second).versions] == ["rewritten"]
    ours = store.files.find_for_session(first.id, str(path))
    assert ours is not None
    assert b"".join(store.files.chunks(ours)) == old.data


def test_forgetting_the_new_session_keeps_the_bytes_of_the_old(store: Store, home: Path, tmp_path: Path) -> None:
    """They were stored as the difference to those of the new one."""
    old = claude_log(40)
    path = old.write(home)
    synced(store, home)
    edit(path)
    synced(store, home)
    ((file,),) = store.database.rows("SELECT id FROM file WHERE replaced_by IS NOT NULL")
    ((base,),) = store.database.rows("SELECT base FROM chunk WHERE file = ?", file)
    with store.transaction():
        store.files.remove(base)
    assert b"".join(store.files.chunks(file)) == old.data


def test_forgetting_a_session_removes_all_its_versions(store: Store, home: Path) -> None:
    """Also those from before the file was moved."""
    path = log_of("claude").write(home)
    synced(store, home)
    edit(path)
    synced(store, home)
    moved = path.parent.with_name("moved")
    path.parent.rename(moved)
    edit_and_append(moved / path.name)
    synced(store, home)
    for row in store.sessions.select():
        with store.transaction():
            store.sessions.delete(row.id)
    for table in ("chunk", "growth", "session_file"):
        assert store.database.rows(f"SELECT * FROM {table}") == []


def moved(path: Path) -> Path:
    """Move a log to the folder of another project."""
    new = path.parent.with_name("moved") / path.name
    new.parent.mkdir(exist_ok=True)
    return path.rename(new)


def assert_versions(store: Store, folder: Path, name: str, states: list[bytes]) -> None:
    versions = History(store, store.sessions.find(name)).versions
    found = [restored(store, name, folder / f"{len(states)}-{len(versions)}", each.number) for each in versions]
    assert found == states
    assert [each.change for each in versions[:2]] == ["created", "rewritten"][: len(states)]


def forget(store: Store) -> None:
    for row in store.sessions.select():
        with store.transaction():
            store.sessions.delete(row.id)


@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize("rewrite", [edit, lengthen, truncate])
def test_a_log_that_is_moved_and_changed_at_once(
    store: Store, home: Path, tmp_path: Path, agent: str, rewrite: Rewrite
) -> None:
    """Its earlier versions can be restored, pushed and rebuilt, and are forgotten with the session."""
    first = log_of(agent, 4).write(home)
    states = [first.read_bytes()]
    synced(store, home)
    path = moved(first)
    rewrite(path)
    states.append(path.read_bytes())
    synced(store, home)
    (session,) = store.sessions.select()
    assert_versions(store, tmp_path / "own", session.name, states)
    assert difference(contents(store), fresh(tmp_path, home)) == ""
    assert Verifier(store).run().is_intact

    path.unlink()
    if agent == "claude":
        # The log of another session is where the first one was, and must not get in the way of copied versions.
        put(first, log_of(agent, 3, "other").data)
    synced(store, home)
    for name in ("pushed", "rebuilt"):
        other = new_store(tmp_path / f"{name}.db")
        if name == "pushed":
            synced(other, home)
            push_archived(store, other)
            assert push_archived(store, other) == 0
        else:
            copy_readable(store, other)
        assert_versions(other, tmp_path / name, session.name, states)
        forget(other)
        assert other.database.rows("SELECT * FROM file") == []
        other.close()
    forget(store)
    assert store.database.rows("SELECT * FROM file") == []


def test_a_session_that_is_read_from_two_copies_of_its_log_in_turn(store: Store, home: Path, tmp_path: Path) -> None:
    """The copy that was written last counts, and the versions of both belong to the session."""
    lines = claude_log(8).data.splitlines(True)
    first = claude_log(2).write(home)
    second = first.parent.with_name("copy") / first.name
    second.parent.mkdir()
    session, states = first.stem, set[bytes]()
    for turn, path in enumerate((first, second, first, second)):
        put(path, b"".join(lines[: 8 + turn]).replace(b"number", b"figure", 2 * turn))
        os.utime(path, ns=(turn * 10**9, turn * 10**9))
        states.add(path.read_bytes())
        synced(store, home)
        row = store.sessions.find(session)
        versions = History(store, row).versions
        found = {restored(store, session, tmp_path / str(turn), each.number) for each in versions}
        assert found == states
        assert restored(store, session, tmp_path / str(turn)) == path.read_bytes()
        assert difference(contents(store), fresh(tmp_path, home)) == ""
    forget(store)
    assert store.database.rows("SELECT * FROM chunk") == []


@pytest.mark.parametrize("more", [b"", b'{"type":"summary"}\n'])
def test_a_copied_log_is_no_rewritten_one(store: Store, home: Path, tmp_path: Path, more: bytes) -> None:
    """As after a move to another disk."""
    first = log_of("claude", 4).write(home)
    synced(store, home)
    second = first.parent.with_name("copy") / first.name
    second.parent.mkdir()
    second.write_bytes(first.read_bytes() + more)
    first.unlink()
    synced(store, home)
    (session,) = store.sessions.select()
    versions = History(store, session).versions
    assert [version.change for version in versions] == ["created", "appended"][: 1 + bool(more)]
    assert versions[-1].files == {str(second): len(second.read_bytes())}
    assert restored(store, session.name, tmp_path, len(versions)) == second.read_bytes()


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_log_that_loses_a_sub_agent(store: Store, home: Path, tmp_path: Path, is_moved: bool) -> None:
    """The session and the sub-agent whose messages were in its log both have the version with them."""
    log = ClaudeLog("main", "1.0.50")
    log.user("Hello", "prompt")
    log.model(call("task", "Task", prompt="look"), name="task")
    log.user("look", "sub prompt", None, isSidechain=True)
    log.model("I looked", name="sub answer", isSidechain=True)
    log.result("task", "I looked", parent="task")
    path = log.write(home)
    synced(store, home)
    assert len(store.sessions.select()) == 2
    path = moved(path) if is_moved else path
    put(path, b"".join(log.data.splitlines(True)[:2]))
    synced(store, home)
    main, agent = sorted(store.sessions.select(), key=lambda row: row.name)
    assert agent.gone_at is not None
    assert restored(store, agent.name, tmp_path / "agent") == log.data
    assert restored(store, main.name, tmp_path / "main", 1) == log.data
    assert restored(store, main.name, tmp_path / "main", 2) == path.read_bytes()
    # Forgetting one of them keeps what the other needs.
    with store.transaction():
        store.sessions.delete(main.id)
    assert restored(store, agent.name, tmp_path / "still") == log.data


@pytest.mark.parametrize("rewrite", [lengthen, truncate])
def test_a_push_adds_versions_of_a_log_that_is_no_session_any_more(
    store: Store, home: Path, tmp_path: Path, rewrite: Rewrite
) -> None:
    """The other store missed the last version before that, which becomes the state of its session."""
    path = gemini_log(4).write(home)
    states = [path.read_bytes()]
    own = new_store(tmp_path / "own.db")
    synced(store, home)
    synced(own, home)
    rewrite(path)
    states.append(path.read_bytes())
    synced(own, home)
    put(path, b"{}\n")
    for each in (store, own):
        synced(each, home)
    assert push_archived(own, store) == 1
    assert push_archived(own, store) == 0
    (session,) = store.sessions.select()
    found = [restored(store, session.name, tmp_path, version.number) for version in History(store, session).versions]
    assert found == states
    own.close()


def test_following_a_long_session_reads_little_of_it(store: Store, home: Path, tmp_path: Path) -> None:
    """An appended line is compared with the last archived chunk. An edit in the middle is found by the next sync."""
    log = claude_log(1)
    for number in range(6):
        log.user(f"{number}" * MEGABYTE)
    path = log.write(home)
    states = {log.data}
    watcher = Watcher(store, home)
    watcher.read_all()
    append(path, log.lines[0].replace(b'"uuid":"', b'"uuid":"0') + b"\n")
    watcher.ingest({path})
    states.add(path.read_bytes())
    with open(path, "r+b") as file:
        file.seek(3 * MEGABYTE)
        file.write(b"edited")
    append(path, log.lines[0].replace(b'"uuid":"', b'"uuid":"1') + b"\n")
    states.add(path.read_bytes())
    with FileFaults(home).active() as seen:
        assert watcher._append(path)
    reads = [call for call in seen.calls if call == Call("read", path)]
    assert len(reads) < 12
    synced(store, home)
    (session,) = store.sessions.select()
    assert restored(store, session.name, tmp_path) == path.read_bytes()
    count = len(History(store, session).versions)
    assert {restored(store, session.name, tmp_path, number) for number in range(1, count + 1)} <= states


def test_a_file_that_is_replaced_while_it_is_archived(store: Store, home: Path, tmp_path: Path) -> None:
    """The archive never holds a mixture of two files."""
    path = log_of("claude", 4).write(home)
    synced(store, home)
    before = path.read_bytes()
    append(path, log_of("claude", 6).data[len(before) :])
    opened = 0

    def swap(_: int, call: Call) -> None:
        nonlocal opened
        opened += call == Call("open", path)
        if opened == 2:
            opened += 1
            edit(path)

    with FileFaults(home, swap).active():
        Syncer(store, home).run()
    row = store.files.at(str(path))
    assert row is not None
    assert b"".join(store.files.chunks(row.id)) in (before, path.read_bytes())
    synced(store, home)
    assert difference(contents(store), fresh(tmp_path, home)) == ""


def test_an_interrupted_restore_leaves_no_part_of_a_file(
    store: Store, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, for example; with more space it works in the same folder."""
    path = log_of("claude").write(home)
    synced(store, home)
    (session,) = store.sessions.select()
    chunks = store.files.chunks

    def full(*args: int) -> Iterator[bytes]:
        yield next(chunks(*args))[:100]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.files, "chunks", full)
    with pytest.raises(OSError, match="No space"):
        restore_session(store, session, tmp_path / "back")
    assert [each for each in (tmp_path / "back").rglob("*") if each.is_file()] == []
    monkeypatch.undo()
    assert [each.to.read_bytes() for each in restore_session(store, session, tmp_path / "back")] == [path.read_bytes()]


def test_a_long_line_of_a_deleted_original(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If its beginning was copied with every piece that is added, this would take minutes."""
    path = log_of("claude").write(tmp_path)
    log_of("claude", 1, "another").write(tmp_path)
    synced(store, tmp_path)
    path.unlink()
    synced(store, tmp_path)
    pieces = [b"a\nb", *[b"x" * 100] * 300_000, b"\n", b"c\n", b"d"]
    monkeypatch.setattr(store.files, "chunks", lambda _: iter(pieces))
    found = list(ArchivedOriginals(store, "claude", None).lines_of(path.stem))
    assert found == [b"a\n", b"b" + b"x" * 30_000_000 + b"\n", b"c\n", b"d"]
