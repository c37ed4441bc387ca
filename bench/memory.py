"""Measures memory while a session of a gigabyte is exported as a stream."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from .multiply import lengthen
from .report import Measure

_SIZE = 1 << 30
_INTERVAL = 0.1


def measure(corpus: Path, folder: Path) -> Iterator[Measure]:
    """Measure the peak memory of an export in a separate process."""
    path = folder / "long.jsonl"
    write(path, corpus)
    start = time.perf_counter()
    peak = peak_of([sys.executable, "-m", "unspool", "export", "--format", "stream", str(path)])
    took = time.perf_counter() - start
    detail = f"{path.stat().st_size / 1e9:.2f} GB in {took:.0f} s"
    path.unlink()
    yield Measure("memory of export --format stream of 1 GB", peak / 1e6, " MB", 200, detail)


def write(path: Path, corpus: Path, size: int = _SIZE) -> None:
    """Write the longest recorded session, repeated to at least `size` bytes, with new ids that stay consistent."""
    source = max(corpus.glob("claude/2.1.325/*/home/.claude/projects/*/*.jsonl"), key=lambda path: path.stat().st_size)
    data = source.read_bytes()
    times = size // len(data) + 1
    with open(path, "wb") as file:
        for piece in lengthen(data, source.stem.encode(), times):
            file.write(piece)


def peak_of(command: list[str], output: IO[str] | int = subprocess.DEVNULL) -> int:
    """Return the peak memory of a command and all processes that it starts, in bytes.

    The memory is sampled, because the peak that the system records for a process starts with the size of its parent.
    """
    process = subprocess.Popen(command, stdout=output)
    peak = 0
    while process.poll() is None:
        peak = max(peak, _memory_of(process.pid))
        time.sleep(_INTERVAL)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} exited with status {process.returncode}")
    return peak


def _memory_of(pid: int) -> int:
    """Return the memory of a process and its descendants; memory that several of them share is counted once."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    share = next((line.split()[1] for line in text.splitlines() if line.startswith("Pss:")), "0")
    return 1024 * int(share) + sum(_memory_of(int(child)) for child in children)
