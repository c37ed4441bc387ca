"""Which repository a project's folder belongs to: worktrees are grouped under the repository they were made of."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable
from functools import lru_cache

_LONGEST = 4096
"""The most bytes of a `.git` file that are read; it holds one path."""
_INSIDE = re.compile(r"(?P<repository>.+?)/(?:\.[^/]+/)?\.?worktrees?/[^/]+(?:/.*)?")
"""A folder for worktrees in the repository: `.worktrees/name`, or `.agent/worktrees/name`."""
_BESIDE = re.compile(r"(?P<repository>.+?)(?:[.-]worktrees?/[^/]+|-unspool-[0-9a-f]{6})(?:/.*)?")
"""A folder beside it: `demo.worktrees/name`, `demo-worktrees/name`, or what `unspool run` makes."""
_GIT_FOLDER = re.compile(r"gitdir:\s*(?P<repository>/.+)/\.git/worktrees/[^/]+\s*")
_FEWEST_PARTS = 4
"""Parts of the shortest path that is taken for a repository: folders of users have fewer, `/home/dev` three."""


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
    """The repository of a folder. What its own `.git` file says counts more than what its path looks like."""
    recorded = _recorded_repository(path)
    if recorded is not None:
        return recorded
    for pattern in (_INSIDE, _BESIDE):
        found = pattern.fullmatch(path)
        if found and (found["repository"] in known or found["repository"].count("/") >= _FEWEST_PARTS - 1):
            return found["repository"]
    return path


@lru_cache(maxsize=4096)
def _recorded_repository(path: str) -> str | None:
    """The repository that a worktree on this machine names; None if the folder is not a worktree, or not here."""
    if not os.path.isabs(path) or path.startswith(("//", "\\\\")) or "\0" in path:
        return None
    name = os.path.join(path, ".git")
    try:
        state = os.lstat(name)
        # In a repository it is a folder. A path comes from a log, and may lead to anything.
        if not stat.S_ISREG(state.st_mode) or state.st_size > _LONGEST:
            return None
        with open(name, encoding="utf-8") as file:
            found = _GIT_FOLDER.fullmatch(file.read(_LONGEST))
    except (OSError, ValueError):
        return None
    return found["repository"] if found else None
