"""Everything, on recordings multiplied to at least 300 MB."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from . import memory, reading, start, tree
from .multiply import multiply, recordings

_CORPUS = Path(__file__).parents[1] / "tests" / "corpus"

_NEWEST = 3
_LENGTH = 8
"""Recordings have a few turns each; sessions at work are longer."""


def main() -> int:
    """Print each measure as it is taken; 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--copies", type=int, default=1, help="more input: each recording so often (default: 1)")
    copies = parser.parse_args().copies
    missed = 0
    with tempfile.TemporaryDirectory(prefix="unspool-bench-") as name:
        folder = Path(name)
        half, whole = folder / "half", folder / "whole"
        homes = recordings(_CORPUS, _NEWEST)
        multiply(homes, half, copies, _LENGTH)
        size = multiply(homes, whole, 2 * copies, _LENGTH)
        print(
            f"{size / 1e6:.0f} MB: recordings of the newest versions, {2 * copies} times, each {_LENGTH} times as long"
        )
        for measures in (
            start.measure(whole),
            reading.measure(whole),
            reading.growth(half, whole),
            tree.measure(folder),
            memory.measure(_CORPUS, folder),
        ):
            for measure in measures:
                print(measure, flush=True)
                missed += not measure.kept
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
