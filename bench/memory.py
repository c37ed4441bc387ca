"""Memory while a session of a gigabyte is exported as a stream."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .multiply import lengthen
from .report import Measure

_SIZE = 1 << 30


def measure(corpus: Path, folder: Path) -> Iterator[Measure]:
    """The peak of a program of its own."""
    path = folder / "long.jsonl"
    write(path, corpus)
    start = time.perf_counter()
    peak = peak_of(["export", "--format", "stream", str(path)])
    took = time.perf_counter() - start
    detail = f"{path.stat().st_size / 1e9:.2f} GB in {took:.0f} s"
    path.unlink()
    yield Measure("memory of export --format stream of 1 GB", peak / 1e6, " MB", 200, detail)


def write(path: Path, corpus: Path, size: int = _SIZE) -> None:
    """The longest recorded session, over and over, with new ids that hang together."""
    source = max(corpus.glob("claude/2.1.325/*/home/.claude/projects/*/*.jsonl"), key=lambda path: path.stat().st_size)
    data = source.read_bytes()
    times = size // len(data) + 1
    with open(path, "wb") as file:
        for piece in lengthen(data, source.stem.encode(), times):
            file.write(piece)


def peak_of(arguments: list[str]) -> int:
    """The most memory, in bytes, that the command had at once."""
    process = subprocess.Popen([sys.executable, "-m", "unspool", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"unspool {' '.join(arguments)} ended with {process.returncode}")
    return usage.ru_maxrss * 1024
