"""Finds the repository that a project's folder belongs to, so that worktrees are grouped under their repository."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable
from functools import lru_cache

_LONGEST = 4096
"""Size limit for a path, and for a `.git` file, which contains one."""
_INSIDE = re.compile(r"(?P<repository>.+?)/(?:\.[^/]+/)?\.?worktrees?/[^/]+(?:/.*)?")
"""A worktree inside the repository: `.worktrees/name`, or `.agent/worktrees/name`."""
_NEXT_TO = re.compile(r"(?P<repository>.+?)(?:[.-]worktrees?/[^/]+|-unspool-[0-9a-f]{6})(?:/.*)?")
"""A worktree next to the repository: `demo.worktrees/name`, `demo-worktrees/name`, or as `unspool run` creates it."""
_GIT_FOLDER = re.compile(r"gitdir:\s*(?P<repository>/.+)/\.git/worktrees/[^/]+\s*")
_FEWEST_PARTS = 4
"""Minimum number of parts in the path of a repository, including the root: a home such as `/home/dev` has three."""


def repositories_of(projects: Iterable[str]) -> dict[str, str]:
    """The repository of each project's folder: another folder if it is a worktree, otherwise the same."""
    known = set(projects)
    return {path: repository_of(path, known) for path in known}


def enclosing_repository(folder: str) -> str | None:
    """The nearest folder, from this one up, that is a repository or a worktree on this machine."""
    path = os.path.abspath(folder)
    while not os.path.lexists(os.path.join(path, ".git")):
        above = os.path.dirname(path)
        if above == path:
            return None
        path = above
    return path


def repository_of(path: str, known: Collection[str]) -> str:
    """Return the repository of a folder. Its `.git` file takes precedence over what its path suggests."""
    if len(path) > _LONGEST:
        return path
    recorded = _recorded_repository(path)
    if recorded is not None:
        return recorded
    for pattern in (_INSIDE, _NEXT_TO):
        found = pattern.fullmatch(path)
        if found and (found["repository"] in known or found["repository"].count("/") >= _FEWEST_PARTS - 1):
            return found["repository"]
    return path


def _recorded_repository(path: str) -> str | None:
    """Return the repository that a worktree's `.git` file names; None if it is not a worktree on this machine."""
    if not os.path.isabs(path) or path.startswith(("//", "\\\\")) or "\0" in path:
        return None
    name = os.path.join(path, ".git")
    try:
        state = os.lstat(name)
        # In a repository, `.git` is a folder. The path comes from a log, and may refer to anything.
        if not stat.S_ISREG(state.st_mode) or state.st_size > _LONGEST:
            return None
        return _repository_in(name, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=4096)
def _repository_in(name: str, *state: int) -> str | None:  # noqa: ARG001 - a file in another state is read again
    with open(name, encoding="utf-8") as file:
        found = _GIT_FOLDER.fullmatch(file.read(_LONGEST))
    return found["repository"] if found else None
