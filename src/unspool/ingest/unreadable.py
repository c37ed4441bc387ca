"""Records what could not be read in an agent's folder, and decides which sessions stay as they are because of it.

An error of the file system is not a change of a file. A session with a file that cannot be read is left as it is. Other
sessions may depend on that file as well: on a sub-agent, or on the session they were forked from. They wait for one
run, because most errors are temporary. If the file still cannot be read then, they are read without it, and again when
it can be read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path

from .._version import __version__
from ..core.errors import UnspoolError
from ..io.faults import reason_of
from ..io.files import name_of
from .scan import folders_above

_BY_THIS_VERSION = f"not understood by unspool {__version__}: "
_ADVICE = "; its bytes are archived. Please report it with the output of `unspool doctor --debug FILE`"
_LONGEST_REASON = 500


class HeldError(UnspoolError):
    """A session stays as it is, because something could not be read."""


class Unreadable:
    """The files and folders in one agent's folder that could not be read."""

    def __init__(self, root: Path, known: Collection[str], before: Mapping[str, str]) -> None:
        """`known` are the archived files; `before` has the paths that could not be read in the last run, and why."""
        self._root = root
        self._known = known
        self.before = before
        self.now: dict[str, str] = {}
        """The reasons of this run, by path."""
        self._changing: dict[str, str] = {}
        self._found: list[str] = []
        """The relevant paths among the first `_counted`. Every session needs them, and paths are never removed."""
        self._counted = 0
        self._mark = ""

    @property
    def for_next_run(self) -> dict[str, str]:
        """The paths that the next run has to examine again even if nothing changes until then, and why."""
        return self._changing | self.now

    def note_changing(self, path: Path) -> None:
        """Note that a file was deleted or rewritten while it was read, which is not a failure."""
        self._changing[name_of(path)] = "changed while it was read"

    def add(self, errors: Mapping[Path, OSError]) -> None:
        """Add errors in the agent's folder. Readers also access other paths, such as the list of processes."""
        for path, error in errors.items():
            if path.is_relative_to(self._root):
                self.now.setdefault(name_of(path), reason_of(error))

    def reject(self, path: Path, why: str) -> str:
        """Add a session that could not be read or written although its file is readable; returns what to report."""
        reason = f"{_BY_THIS_VERSION}{why}"[:_LONGEST_REASON].encode("utf-8", "replace").decode().replace("\0", "")
        self.now[name_of(path)] = reason
        return f"{name_of(path)}: {reason}{_ADVICE}"

    def is_rejected(self, path: Path) -> bool:
        """Whether this version of unspool could not read a session before; if so, the session is added again."""
        name = name_of(path)
        reason = self.before.get(name, "")
        if reason.startswith(_BY_THIS_VERSION):
            self.now.setdefault(name, reason)
            return True
        return False

    def check_new(self, paths: Iterable[Path]) -> None:
        """Raise HeldError if a file of a session could not be read."""
        self._check(map(name_of, paths))

    def check_stored(self, files: Iterable[str]) -> None:
        """Raise HeldError if a file that a stored session was read from, or depends on, could not be read."""
        self._check(files)
        self._check(path for path in self._relevant() if path not in self.before)

    def mark(self) -> str:
        """Return a part of the fingerprint of sessions, which has them read again if files were missing this time."""
        self._relevant()
        return self._mark

    def _check(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path in self.now:
                raise HeldError(f"{path}: {self.now[path]}")

    def _relevant(self) -> list[str]:
        """Return the paths that sessions may have been read from: archived files, and folders that contain some."""
        if len(self.now) != self._counted:
            self._found = [path for path in self.now if path in self._known or path in self._folders]
            digest = hashlib.blake2b("\0".join(sorted(self._found)).encode(), digest_size=8)
            self._mark = f"!{digest.hexdigest()}" if self._found else ""
            self._counted = len(self.now)
        return self._found

    @cached_property
    def _folders(self) -> set[str]:
        """The folders that contain archived files."""
        return {folder for path in self._known for folder in folders_above(path)}
