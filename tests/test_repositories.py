"""Worktrees are recognised by their `.git` file, or by where they are."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

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
