"""Worktrees are recognised by their `.git` file, or by where they are."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from unspool import repositories
from unspool.repositories import repositories_of, repository_of


@pytest.mark.parametrize(
    ("path", "repository"),
    [
        ("/home/dev/demo/.claude/worktrees/pier", "/home/dev/demo"),
        ("/home/dev/demo/.claude/worktrees/pier/src", "/home/dev/demo"),
        ("/home/dev/demo/.worktrees/pier", "/home/dev/demo"),
        ("/home/dev/demo.worktrees/pier", "/home/dev/demo"),
        ("/home/dev/demo-worktrees/pier", "/home/dev/demo"),
        ("/home/dev/demo-unspool-0a1b2c", "/home/dev/demo"),
        ("/home/dev/demo", "/home/dev/demo"),
        ("/home/dev/demo/src", "/home/dev/demo/src"),
        # Worktrees of several repositories in the folder of an agent.
        ("/home/dev/.codex/worktrees/0a1b/demo", "/home/dev/.codex/worktrees/0a1b/demo"),
        ("relative/.worktrees/x", "relative/.worktrees/x"),
        ("", ""),
    ],
)
def test_the_path_says_where_a_worktree_belongs(path: str, repository: str) -> None:
    assert repository_of(path, ()) == repository


def test_a_known_project_can_have_a_short_path() -> None:
    assert repositories_of(["/srv", "/srv/.worktrees/x"]) == {"/srv": "/srv", "/srv/.worktrees/x": "/srv"}


def test_the_git_file_of_a_worktree_is_read(tmp_path: Path) -> None:
    """However it is called, and wherever it is."""
    repository, tree = tmp_path / "demo", tmp_path / "elsewhere" / "anything"
    repository.mkdir()
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for command in (
        ("init", "-q"),
        (*identity, "commit", "-qm", "first", "--allow-empty"),
        ("worktree", "add", "-q", str(tree)),
    ):
        subprocess.run(("git", "-C", str(repository), *command), check=True, capture_output=True)
    assert repository_of(str(tree), ()) == str(repository.resolve())
    assert repository_of(str(repository), ()) == str(repository)


@pytest.mark.parametrize("content", [b"", b"gitdir: nothing", b"\xff\xfe", b"x" * 10_000])
def test_a_git_file_that_says_nothing_is_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)
    assert repository_of(str(tmp_path), ()) == str(tmp_path)


def test_a_worktree_may_come_and_go(tmp_path: Path) -> None:
    """A server that runs for weeks sees what is there now."""
    tree, file = str(tmp_path), tmp_path / ".git"
    assert repository_of(tree, ()) == tree
    for repository in ("/home/dev/demo", "/home/dev/other"):
        file.write_text(f"gitdir: {repository}/.git/worktrees/pier\n")
        assert repository_of(tree, ()) == repository
    file.unlink()
    assert repository_of(tree, ()) == tree


def test_an_unchanged_git_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").write_text("gitdir: /home/dev/demo/.git/worktrees/pier\n")
    opened: list[str] = []

    def count(name: str, **options: Any) -> Any:
        opened.append(name)
        return open(name, **options)

    monkeypatch.setattr(repositories, "open", count, raising=False)
    for _ in range(3):
        assert repository_of(str(tmp_path), ()) == "/home/dev/demo"
    assert opened == [str(tmp_path / ".git")]


def test_a_path_that_cannot_exist_is_its_own_repository() -> None:
    """A log may have any text as its folder, which is not searched for worktrees from each of its parts."""
    path = "/home/dev/demo" + "/worktrees/a" * 100_000 + "\n"
    assert repositories_of([path]) == {path: path}
