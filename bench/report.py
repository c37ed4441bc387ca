"""One line a measurement: what was measured, against what, and what is promised."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple


class Measure(NamedTuple):
    """A number with its promise."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    detail: str = ""
    before: str = ""
    """The same of an earlier version, for comparison."""
    at_least: float | None = None

    @property
    def kept(self) -> bool:
        """Whether the promise holds."""
        is_low = self.at_most is None or self.value <= self.at_most
        return is_low and (self.at_least is None or self.value >= self.at_least)

    def __str__(self) -> str:
        limits = (("at most", self.at_most), ("at least", self.at_least))
        promise = "".join(f"  ({word} {limit:g}{self.unit})" for word, limit in limits if limit is not None)
        verdict = "  " if not promise else "ok" if self.kept else "NO"
        before = f"  earlier: {self.before}." if self.before else ""
        return f"{verdict}  {self.name:<58} {self.value:8.2f}{self.unit}{promise}{before}  {self.detail}"


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long some work takes."""
    start = clock()
    work()
    return clock() - start


def cpu_seconds(command: list[str], environ: dict[str, str] | None = None) -> float:
    """How long a program computes, with all it starts. Raises SystemExit if it fails."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **(environ or {})})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime
