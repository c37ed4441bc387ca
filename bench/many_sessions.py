"""Measures 20,000 sessions: the cost of listing the newest ones, and whether a sync costs more per session."""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from unspool.testing import ClaudeLog

from .inputs import Inputs
from .report import Measure, cpu_seconds

_MANY = 20_000
_FEW = 1_000
_PROJECTS = 200
_ROUNDS = 5
_UNSPOOL = [sys.executable, "-m", "unspool"]


def measure(inputs: Inputs) -> Iterator[Measure]:
    """Measure a list of the newest 20 sessions, and a first and a second sync."""
    folder = inputs.folder / "many"
    few, again_few = _synced(folder / "few", _FEW)
    many, again_many = _synced(folder / "many", _MANY)
    bare = _cpu([sys.executable, "-c", "pass"], folder)
    for name, options in (("ls -n 20 --stored", ["--stored"]), ("ls -n 20", [])):
        took = _cpu([*_UNSPOOL, "ls", "-n", "20", *options], folder / "many")
        some = _cpu([*_UNSPOOL, "ls", "-n", "20", *options], folder / "few")
        detail = f"CPU; {_FEW:,} sessions {some:.2f} s, python itself {bare:.2f} s"
        yield Measure(f"{name} of {_MANY:,} sessions", took, " s", 0.3, detail, "10 s, as for a full list")
    each, each_again = many / _MANY / (few / _FEW), again_many / _MANY / (again_few / _FEW)
    detail = f"{many:.1f} s for {_MANY:,}, {few:.2f} s for {_FEW:,}"
    yield Measure("first sync of 20 times as many sessions, per session", each, "x", 1.5, detail, "20x for some")
    detail = f"{again_many:.2f} s and {again_few:.2f} s"
    yield Measure("second sync of 20 times as many sessions, per session", each_again, "x", 1.5, detail)
    shutil.rmtree(folder)


def write(home: Path, count: int) -> None:
    """Write small sessions in many projects."""
    for number in range(count):
        log = ClaudeLog(f"session {number}")
        log.user(f"Please look into case {number}")
        log.model(f"Case {number} is closed.")
        path = log.write(home)
        project = path.parents[1] / f"-home-dev-project{number % _PROJECTS}"
        project.mkdir(exist_ok=True)
        path.rename(project / path.name)


def _synced(folder: Path, count: int) -> tuple[float, float]:
    """Return the CPU seconds of a first and a second sync, not counting the start of the program."""
    write(folder / "home", count)
    (folder / "none" / "home").mkdir(parents=True)
    sync = [*_UNSPOOL, "sync"]
    start = _cpu(sync, folder / "none")
    return cpu_seconds(sync, _environ(folder)) - start, _cpu(sync, folder) - start


def _cpu(command: list[str], folder: Path) -> float:
    return statistics.median(cpu_seconds(command, _environ(folder)) for _ in range(_ROUNDS))


def _environ(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder / "home"), "UNSPOOL_DATA": str(folder / "data")}
