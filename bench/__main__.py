"""Everything, on recordings multiplied to at least 300 MB."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from . import memory, reading, start, tree
from .multiply import multiply

_CORPUS = Path(__file__).parents[1] / "tests" / "corpus"

_EVERY = 5
_LENGTH = 14
"""Recordings are short, a few turns each; what is written for every session would weigh too much."""


def main() -> int:
    """Print each measure as it is taken; 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--copies", type=int, default=1, help="more input: each recording so often (default: 1)")
    copies = parser.parse_args().copies
    missed = 0
    with tempfile.TemporaryDirectory(prefix="unspool-bench-") as name:
        folder = Path(name)
        half, whole = folder / "half", folder / "whole"
        multiply(_CORPUS, half, copies, _LENGTH, _EVERY)
        size = multiply(_CORPUS, whole, 2 * copies, _LENGTH, _EVERY)
        print(
            f"{size / 1e6:.0f} MB of recordings, each said {_LENGTH} times over to be as long as sessions at work are"
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
