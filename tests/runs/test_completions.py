"""Completions of commands and files, and worktrees for a second agent in a folder."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from unspool.core.errors import UsageError
from unspool.runs import completions
from unspool.runs.completions import OfferedCommand, complete, offered_commands
from unspool.runs.worktrees import folder_state, make_worktree

COMMANDS = [OfferedCommand("compact", "Summarise"), OfferedCommand("clear"), OfferedCommand("project:clean")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git repository with a commit, an ignored file and a new one."""
    folder = tmp_path / "demo"
    (folder / "src").mkdir(parents=True)
    for name, text in ((".gitignore", "secret.txt\n"), ("src/main.py", ""), ("secret.txt", ""), ("README.md", "")):
        (folder / name).write_text(text)
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for command in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "first")):
        subprocess.run(("git", "-C", str(folder), *command), check=True, capture_output=True)
    (folder / "src" / "new main.py").write_text("")
    return folder


def texts(word: str, folder: Path) -> list[str]:
    return [one.text for one in complete(word, COMMANDS, str(folder))]


def test_commands_that_start_with_the_word_come_first(tmp_path: Path) -> None:
    assert texts("/cl", tmp_path) == ["/clear", "/project:clean"]
    assert complete("/comp", COMMANDS, str(tmp_path))[0].detail == "Summarise"
    assert texts("/none", tmp_path) == []
    assert texts("plain", tmp_path) == []


def test_files_are_those_that_git_knows_or_would_add(project: Path) -> None:
    assert texts("@main", project) == ["@src/main.py", "@src/new main.py"]
    assert texts("@secret", project) == []
    assert "@README.md" in texts("@", project)


def test_files_without_git_are_found_on_disk_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completions, "MAX_FILES", 3)
    monkeypatch.setattr(completions, "_from_git", lambda _: None)
    for name in (".hidden", "a", "b", "c", "d"):
        (tmp_path / name).write_text("")
    (tmp_path / "node_modules").mkdir()
    assert texts("@", tmp_path) == ["@a", "@b", "@c"]


def test_a_repository_cannot_run_a_program_by_being_listed(project: Path, tmp_path: Path) -> None:
    script = tmp_path / "watch"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    script.chmod(0o755)
    subprocess.run(("git", "-C", str(project), "config", "core.fsmonitor", str(script)), check=True)
    assert texts("@README", project) == ["@README.md"]
    assert not (tmp_path / "ran").exists()


def test_lists_of_commands_may_hold_anything() -> None:
    given: Any = [{"name": "a", "description": "A"}, {"name": 1}, "b", {"name": "c", "description": None}]
    assert offered_commands(given) == [OfferedCommand("a", "A"), OfferedCommand("c")]
    assert offered_commands(None) == []


def view(folder: Path, state: str = "idle") -> Any:
    return SimpleNamespace(id="r1", folder=str(folder), state=state)


def test_a_folder_is_busy_if_an_agent_works_in_it_around_it_or_inside_it(project: Path) -> None:
    for place in (project, project.parent, project / "src"):
        state = folder_state(str(project), [view(place)])
        assert (state.busy, state.can_have_worktree) == (["r1"], True)
    for other in (view(project, "ended"), view(project.with_name("demo2"))):
        assert folder_state(str(project), [other]).busy == []
    assert not folder_state(str(project.parent), [view(project)]).can_have_worktree


def test_a_worktree_has_the_files_of_the_project_on_a_branch_of_its_own(project: Path) -> None:
    hook = project / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    made = Path(make_worktree(str(project)))
    assert made.parent == project.parent
    assert (made / "src" / "main.py").exists()
    assert not list(project.parent.glob("*/ran"))
    branch = subprocess.run(("git", "-C", str(made), "branch", "--show-current"), capture_output=True, check=True)
    assert branch.stdout.startswith(b"unspool/")


def test_a_worktree_that_is_not_possible_says_why(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Could not create a git worktree"):
        make_worktree(str(tmp_path))
