"""How soon the command answers, and how little a list reads."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from unspool.library import Library

from .report import Measure, seconds


def measure(home: Path) -> Iterator[Measure]:
    """The help, and a list of everything."""
    bare = statistics.median(_run([sys.executable, "-c", "pass"]) for _ in range(9))
    helped = statistics.median(_run([sys.executable, "-m", "unspool", "--help"]) for _ in range(9))
    yield Measure("unspool --help", helped * 1e3, " ms", 150, f"python itself {bare * 1e3:.0f} ms")
    before = _bytes_read()
    count = 0

    def listed() -> None:
        nonlocal count
        count = sum(1 for _ in Library(home).refs())

    took = seconds(listed)
    read = _bytes_read() - before
    size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
    detail = f"{count} sessions in {took:.2f} s, {read / count / 1e3:.0f} kB each of {size / count / 1e3:.0f} kB"
    yield Measure("a list reads of what there is", 100 * read / size, " %", None, detail)


def _run(command: list[str]) -> float:
    return seconds(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True))


def _bytes_read() -> int:
    """By this process so far, from files or their cache."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    return 0
