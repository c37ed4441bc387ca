"""Answers come from the sessions of one project, and never from the one that asks."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from unspool.core.errors import NotFoundError
from unspool.mcp.scope import Caller, ProjectScope, find_session, own_sessions
from unspool.store import Store
from unspool.store.filters import SessionFilter
from unspool.testing import CodexLog

from ..store.contents import new_store, synced
from .project import ProjectLog, store_of


def git(folder: Path, *arguments: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(("git", "-C", str(folder), *identity, *arguments), check=True, capture_output=True)


def logged(home: Path, *folders: Path | str) -> None:
    """A session in each of some folders, named after the folder."""
    for folder in folders:
        log = ProjectLog(str(folder), folder)
        log.user(f"in {folder}")
        log.model("Yes.")
        log.write(home)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = new_store(tmp_path / "store.db")
    yield made
    made.close()


def projects_in(store: Store, folder: Path | str | None) -> set[str | None]:
    """The folders of the sessions in scope of a server that is started in a folder."""
    scope = ProjectScope(None if folder is None else str(folder))
    return {row.project for row in store.sessions.select(scope.sessions(store, ()))}


def test_a_repository_with_its_folders_and_worktrees(store: Store, tmp_path: Path) -> None:
    """But not what is beside it, above it, or a repository of its own inside it."""
    repository, inner = tmp_path / "demo", tmp_path / "demo" / "vendor" / "other"
    tree, hidden = tmp_path / "elsewhere", repository / ".claude" / "worktrees" / "pier"
    git(repository, "init", "-q")
    git(repository, "commit", "-qm", "first", "--allow-empty")
    git(repository, "worktree", "add", "-q", str(tree))
    git(inner, "init", "-q")
    inside, gone = repository / "src", repository / "deleted"
    inside.mkdir()
    outside = (tmp_path, tmp_path / "demo-2", tmp_path / "unrelated", inner)
    logged(tmp_path / "home", repository, inside, gone, tree, hidden, *outside)
    synced(store, tmp_path / "home")
    own = {str(path) for path in (repository, inside, gone, tree, hidden)}
    assert projects_in(store, repository) == own
    assert projects_in(store, inside) == own
    assert projects_in(store, tree) == own
    assert projects_in(store, inner) == {str(inner)}
    assert projects_in(store, None) == own | {str(path) for path in outside}


def test_a_folder_that_is_no_repository_is_a_project_of_its_own(store: Store, tmp_path: Path) -> None:
    """A server that is started in a home directory does not answer about everything below it."""
    logged(tmp_path / "home", tmp_path, tmp_path / "one", tmp_path / "one" / "two")
    synced(store, tmp_path / "home")
    assert projects_in(store, tmp_path) == {str(tmp_path)}
    assert projects_in(store, tmp_path / "one") == {str(tmp_path / "one")}
    assert projects_in(store, tmp_path / "three") == set()


def test_a_link_to_the_folder_is_the_same_project(store: Store, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "one")
    logged(tmp_path / "home", tmp_path / "one", tmp_path / "link")
    synced(store, tmp_path / "home")
    assert projects_in(store, tmp_path / "link") == {str(tmp_path / "one"), str(tmp_path / "link")}


def test_the_same_path_on_another_machine_is_another_project(tmp_path: Path) -> None:
    logged(tmp_path / "home", "/workspace/demo")
    logged(tmp_path / "theirs", "/workspace/demo", "/workspace/secret")
    path = tmp_path / "team.db"
    theirs = new_store(path, ("another key", "their machine"))
    synced(theirs, tmp_path / "theirs")
    theirs.close()
    from unspool.store.backends.sqlite import SqliteDatabase

    ours = Store(SqliteDatabase(path, machine=("key of the machine", "machine")))
    try:
        synced(ours, tmp_path / "home")
        found = ours.sessions.select(ProjectScope("/workspace/demo").sessions(ours, ()))
        assert [(row.project, row.machine) for row in found] == [("/workspace/demo", "machine")]
        assert len(ours.sessions.select()) == 3
    finally:
        ours.close()


def test_the_session_that_asks_is_left_out_with_its_sub_agents(tmp_path: Path) -> None:
    """Also if it is a sub-agent that asks; another session stays."""
    home, folder = tmp_path / "home", "/home/dev/demo"
    asking, other = ProjectLog("asking", folder), ProjectLog("other", folder)
    for log in (asking, other):
        log.user("A question.")
        log.model("An answer.")
        path = log.write(home)
        sub = ProjectLog(log.session, folder)
        sub.session, sub.agent = log.session, "a1"
        sub.user("A task.")
        sub.model("Done.")
        below = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
        below.parent.mkdir(parents=True)
        below.write_bytes(sub.data)
    store = store_of(tmp_path / "store.db", home)
    try:
        names = {row.name for row in store.sessions.select()}
        assert len(names) == 4
        for caller in (asking.session, f"{asking.session}/a1"):
            scope = ProjectScope(folder).sessions(store, [Caller("claude", caller)])
            assert {row.name for row in store.sessions.select(scope)} == {other.session, f"{other.session}/a1"}
            with pytest.raises(NotFoundError):
                find_session(store, scope, asking.session)
            assert find_session(store, scope, "latest").name == other.session
        assert own_sessions(store, Caller("codex", asking.session), SessionFilter()) == set()
    finally:
        store.close()


def test_an_agent_that_does_not_say_which_session(store: Store, tmp_path: Path) -> None:
    """It is the one in this project that was written last, if that was after the server was started."""
    logged(tmp_path / "home", "/home/dev/demo")
    quick = ProjectLog("quick", "/home/dev/demo")
    quick.user("A question.")
    quick.write(tmp_path / "home")
    synced(store, tmp_path / "home")
    (last, *_) = store.sessions.select()
    assert last.ended_at is not None
    for since, left in ((last.ended_at, 1), (last.ended_at + timedelta(seconds=1), 2)):
        scope = ProjectScope("/home/dev/demo").sessions(store, [Caller("claude", since=since)])
        names = {row.name for row in store.sessions.select(scope)}
        assert len(names) == left
        assert (last.name in names) == (left == 2)
    elsewhere = ProjectScope("/home/dev/other").sessions(store, [Caller("claude", since=last.ended_at)])
    assert store.sessions.select(elsewhere) == []


def test_a_caller_that_is_not_stored_yet_leaves_nothing_out(store: Store, tmp_path: Path) -> None:
    CodexLog("thread").write(tmp_path / "home")
    synced(store, tmp_path / "home")
    assert own_sessions(store, Caller("codex", "no such thread"), SessionFilter()) == set()
    everything = ProjectScope(None).sessions(store, [Caller("codex", "no such thread")])
    assert store.sessions.count(everything) == store.sessions.count(SessionFilter(is_empty=False))


@pytest.mark.parametrize("name", ["", "nothing", "../../etc/passwd", "/etc/passwd", "a' OR 1=1 --", "%", "x" * 300])
def test_a_session_that_is_not_there(store: Store, name: str, tmp_path: Path) -> None:
    """The error does not repeat what was asked for, and no file is opened."""
    logged(tmp_path / "home", "/home/dev/demo")
    synced(store, tmp_path / "home")
    with pytest.raises(NotFoundError, match=r"^no such session here; recent_work lists sessions"):
        find_session(store, SessionFilter(projects=("/somewhere/else",)), name)
