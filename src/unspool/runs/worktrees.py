"""Detects agents that would overwrite each other's changes in a folder, and creates git worktrees to avoid that."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ..core.errors import UsageError
from .run_view import RunView

_SECONDS = 120.0


class FolderState(msgspec.Struct, kw_only=True):
    """Whether an agent can start in a folder without interfering with another one."""

    folder: str
    busy: list[str]
    """The ids of the runs that work in the folder, a subfolder or a parent folder."""
    can_have_worktree: bool
    """Whether a worktree can be created: the folder is busy, and is in a git repository with a commit."""


def folder_state(folder: str, runs: Iterable[RunView]) -> FolderState:
    """Return which runs work in a folder, and whether a worktree is possible."""
    path = Path(folder).expanduser().resolve()
    busy = [run.id for run in runs if run.state != "ended" and _overlap(path, Path(run.folder))]
    return FolderState(folder=str(path), busy=busy, can_have_worktree=bool(busy) and _has_commit(path))


def make_worktree(folder: str) -> str:
    """Create a git worktree next to a project, on a new branch; return its folder."""
    path = Path(folder).expanduser().resolve()
    name = uuid.uuid4().hex[:6]
    target = path.with_name(f"{path.name}-unspool-{name}")
    # Hooks are disabled: the code of a repository must not run because a person starts an agent.
    command = ("git", "-c", f"core.hooksPath={os.devnull}", "-C", str(path), "worktree", "add", "-b", f"unspool/{name}")
    done = _git(*command, str(target))
    if done is None or done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] if done is not None else []
        raise UsageError(f"Could not create a git worktree of {path}: {' '.join(reason) or 'git did not respond'}")
    return str(target)


def _overlap(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


def _has_commit(path: Path) -> bool:
    done = _git("git", "-C", str(path), "rev-parse", "--verify", "--quiet", "HEAD") if path.is_dir() else None
    return done is not None and done.returncode == 0


def _git(*command: str) -> subprocess.CompletedProcess[bytes] | None:
    try:
        return subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
