"""Measures how long `unspool --help` takes, and how much of the files a list reads."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from unspool.library import Library

from .report import Measure, seconds


def measure(home: Path) -> Iterator[Measure]:
    """Measure the help, and a list of everything."""
    bare = statistics.median(_run([sys.executable, "-c", "pass"]) for _ in range(9))
    help_text = statistics.median(_run([sys.executable, "-m", "unspool", "--help"]) for _ in range(9))
    yield Measure("unspool --help", help_text * 1e3, " ms", 150, f"python itself {bare * 1e3:.0f} ms")
    before = _bytes_read()
    count = 0

    def list_all() -> None:
        nonlocal count
        count = sum(1 for _ in Library(home).refs())

    took = seconds(list_all)
    read = _bytes_read() - before
    size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
    detail = f"{count} sessions in {took:.2f} s, {read / count / 1e3:.0f} kB each of {size / count / 1e3:.0f} kB"
    yield Measure("share of all bytes that a list reads", 100 * read / size, " %", None, detail)


def _run(command: list[str]) -> float:
    return seconds(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True))


def _bytes_read() -> int:
    """Return the number of bytes that this process has read so far, from files or their cache."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    return 0
