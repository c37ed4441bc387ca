"""Everything, on recordings multiplied to at least 300 MB."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import memory, reading, start, storing, supervising, tree, web
from .multiply import multiply, recordings
from .report import Measure

_CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
_REAL = Path(__file__).parents[1] / "build" / "public-home"
"""Real sessions, if there are any."""

_NEWEST = 3
_LENGTH = 8
"""Recordings have a few turns each; sessions at work are longer."""


def _long_log(folder: Path) -> Path:
    """A log of more than 200 MB."""
    path = folder / "long-log.jsonl"
    memory.write(path, _CORPUS, 220 << 20)
    return path


def _more(whole: Path, homes: list[Path], folder: Path) -> Path:
    """A home of at least 500 MB."""
    place = folder / "more"
    whole.rename(place)
    multiply(homes, place, 1, _LENGTH, first=100)
    return place


def measures(folder: Path, copies: int) -> Iterator[Measure]:
    """One after the other."""
    half, whole = folder / "half", folder / "whole"
    homes = recordings(_CORPUS, _NEWEST)
    multiply(homes, half, copies, _LENGTH)
    size = multiply(homes, whole, 2 * copies, _LENGTH)
    print(f"{size / 1e6:.0f} MB: recordings of the newest versions, {2 * copies} times, each {_LENGTH} times as long")
    yield from start.measure(whole)
    yield from reading.measure(whole)
    yield from reading.growth(half, whole)
    small = folder / "small"
    multiply(homes, small, copies, 1)
    yield reading.whole("  recordings as they are: small files", small)
    if _REAL.is_dir():
        yield reading.whole("  real sessions", _REAL)
    yield from tree.measure(folder)
    yield from memory.measure(_CORPUS, folder)
    yield from storing.appending(_long_log(folder), folder)
    yield from storing.searching(folder)
    yield from storing.measure(_more(whole, homes, folder), folder)
    yield from storing.against_agentsview(_CORPUS, folder)
    yield from web.measure(_CORPUS, folder)
    yield from supervising.measure(folder)


def main() -> int:
    """Print each measure as it is taken; 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--copies", type=int, default=1, help="more input: each recording so often (default: 1)")
    copies = parser.parse_args().copies
    missed = 0
    with tempfile.TemporaryDirectory(prefix="unspool-bench-") as name:
        for measure in measures(Path(name), copies):
            print(measure, flush=True)
            missed += not measure.kept
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
