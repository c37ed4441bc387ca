"""Finds the entry points of installed packages.

`importlib.metadata` takes longer to import than most commands take to run, and few users have a package with an agent.
So it is only imported if the metadata of an installed package mentions the group.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_METADATA = ("dist-info", "egg-info")


def entry_points_in(group: str) -> list[EntryPoint]:
    """The entry points of a group, by name."""
    if not _may_have(group.encode()):
        return []
    from importlib.metadata import entry_points

    return sorted(entry_points(group=group), key=lambda point: point.name)


def _may_have(group: bytes) -> bool:
    """Whether a package may have entry points in a group: one mentions it, or some metadata is not in plain files."""
    if any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder):
        return True
    try:
        return any(group in text for folder in sys.path for text in _declared_in(folder or "."))
    except NotADirectoryError:
        return True  # an archive, which cannot be listed


def _declared_in(folder: str) -> Iterator[bytes]:
    """Yield the content of each `entry_points.txt` of the packages in a folder."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, PermissionError):
        return
    for name in names:
        if name.lower().endswith(_METADATA):
            try:
                yield Path(folder, name, "entry_points.txt").read_bytes()
            except OSError:
                continue
