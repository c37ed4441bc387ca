"""One line a measurement: what was measured, against what, and what is promised."""

from __future__ import annotations

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

    @property
    def kept(self) -> bool:
        """Whether the promise holds."""
        return self.at_most is None or self.value <= self.at_most

    def __str__(self) -> str:
        promise = "" if self.at_most is None else f"  (at most {self.at_most:g}{self.unit})"
        verdict = "  " if self.at_most is None else "ok" if self.kept else "NO"
        return f"{verdict}  {self.name:<58} {self.value:8.2f}{self.unit}{promise}  {self.detail}"


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long some work takes."""
    start = clock()
    work()
    return clock() - start
