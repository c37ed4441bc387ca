"""What is measured: recordings multiplied to the size of a home at work, real sessions, and other programs."""

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
"""Recordings have a few turns each; sessions at work are longer."""

_EVERY = 4
_LARGEST = 60_000
"""Of the recordings of all versions: each whose number is a multiple of this, up to so many bytes."""


class Inputs:
    """Makes each input when it is first asked for."""

    def __init__(self, folder: Path, copies: int = 1, real: Path = REAL, team: int = 0) -> None:
        """`folder` is for everything that is written; each recording is copied `copies` times.

        `team` is the number of sessions in the store of a team.
        """
        self.team = team
        self.folder = folder
        self.real = real if real.is_dir() else None
        self._copies = copies

    @cached_property
    def newest(self) -> list[Path]:
        """Recordings of the newest versions of each agent."""
        return recordings(CORPUS, _NEWEST)

    @cached_property
    def compact(self) -> list[Path]:
        """Recordings of all versions, without large ones, in which most of the bytes are in a few lines."""
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
        """The program to compare with, where it is installed."""
        beside = Path(sys.executable).parent / "agentsview"
        return shutil.which("agentsview") or (str(beside) if beside.exists() else None)

    def _multiplied(self, name: str, copies: int, length: int = _LENGTH) -> Path:
        multiply(self.newest, self.folder / name, copies, length)
        return self.folder / name

    def drop(self, name: str) -> None:
        """Delete an input that no other measurement needs."""
        if name in self.__dict__:
            path: Path = self.__dict__.pop(name)
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def size_of(home: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
