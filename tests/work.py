"""Counts work instead of time: how many lines of Python run does not depend on the machine, or on its load."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import unspool

_PACKAGE = str(Path(unspool.__file__).parent)


def lines_run(work: Callable[[], object]) -> int:
    """Return how many lines of unspool run, each iteration of a loop counted."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def lines_per_pair(work: Callable[[int], object], count: int) -> float:
    """Return how many lines run for each two things among some, beyond those that run for each thing."""
    work(count)
    return per_pair([lines_run(lambda times=times: work(times * count)) for times in (1, 2, 3)], count)  # type: ignore[misc]


def per_pair(counted: Sequence[int], count: int) -> float:
    """Return `c` if work is `a + b·n + c·n²`, given the work for `count` things, for twice and three times as many."""
    one, two, three = counted
    return (three - 2 * two + one) / (2 * count**2)
