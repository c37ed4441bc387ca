"""The inputs of the benchmarks: recordings multiplied to a realistic size, real sessions, and other programs."""

from __future__ import annotations

import shutil
import sys
from functools import cached_property
from pathlib import Path

from . import memory
from .multiply import multiply, recordings

CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
REAL = Path(__file__).parents[1] / "build" / "public-home"
"""Real sessions, if there are any."""
_NEWEST = 3
_LENGTH = 8
"""How many times each session is repeated: recordings have a few turns each, sessions in practice are longer."""

_EVERY = 4
_LARGEST = 60_000
"""`compact` has every `_EVERY`th recording of all versions, unless it is larger than this number of bytes."""


class Inputs:
    """Creates each input when it is first used."""

    def __init__(self, folder: Path, copies: int = 1, real: Path = REAL, team_sessions: int = 0) -> None:
        """`folder` is for everything that is written; each recording is copied `copies` times.

        `team_sessions` is the number of sessions in the store of the `team` benchmark; 0 for the default.
        """
        self.team_sessions = team_sessions
        self.folder = folder
        self.real = real if real.is_dir() else None
        self._copies = copies

    @cached_property
    def newest(self) -> list[Path]:
        """Recordings of the newest versions of each agent."""
        return recordings(CORPUS, _NEWEST)

    @cached_property
    def compact(self) -> list[Path]:
        """Recordings of all versions, except for large ones, where a few lines have most of the bytes."""
        return [home for home in recordings(CORPUS, 1000)[::_EVERY] if size_of(home) <= _LARGEST]

    @cached_property
    def half(self) -> Path:
        """Half of `whole`."""
        return self._multiplied("half", self._copies)

    @cached_property
    def whole(self) -> Path:
        """A home of more than 300 MB."""
        return self._multiplied("whole", 2 * self._copies)

    @cached_property
    def more(self) -> Path:
        """A home of more than 500 MB."""
        home = self._multiplied("more", 2 * self._copies)
        multiply(self.newest, home, 1, _LENGTH, first=100)
        return home

    @cached_property
    def small(self) -> Path:
        """A home with many small files."""
        return self._multiplied("small", self._copies, 1)

    @cached_property
    def long_log(self) -> Path:
        """A log of more than 200 MB."""
        path = self.folder / "long-log.jsonl"
        memory.write(path, CORPUS, 220 << 20)
        return path

    @cached_property
    def agentsview(self) -> str | None:
        """The path of agentsview, if it is installed."""
        next_to_python = Path(sys.executable).parent / "agentsview"
        return shutil.which("agentsview") or (str(next_to_python) if next_to_python.exists() else None)

    def _multiplied(self, name: str, copies: int, length: int = _LENGTH) -> Path:
        multiply(self.newest, self.folder / name, copies, length)
        return self.folder / name


def size_of(home: Path) -> int:
    """Return the total size of all files below a folder."""
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
