"""Measurements, each with its limits, printed as one line."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple


class Measure(NamedTuple):
    """A measured value and its limits."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    detail: str = ""
    before: str = ""
    """The value of an earlier version, for comparison."""
    at_least: float | None = None

    @property
    def is_within_limits(self) -> bool:
        """Whether the value is within its limits."""
        is_low = self.at_most is None or self.value <= self.at_most
        return is_low and (self.at_least is None or self.value >= self.at_least)

    def __str__(self) -> str:
        both = (("at most", self.at_most), ("at least", self.at_least))
        limits = "".join(f"  ({word} {limit:g}{self.unit})" for word, limit in both if limit is not None)
        verdict = "  " if not limits else "ok" if self.is_within_limits else "NO"
        before = f"  earlier: {self.before}." if self.before else ""
        return f"{verdict}  {self.name:<58} {self.value:8.2f}{self.unit}{limits}{before}  {self.detail}"


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how long some work takes, in seconds."""
    start = clock()
    work()
    return clock() - start


def cpu_seconds(command: list[str], environ: dict[str, str] | None = None) -> float:
    """Return the CPU seconds of a command and of all processes that it starts. Raises SystemExit if it fails."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **(environ or {})})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} exited with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime
