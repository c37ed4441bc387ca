"""Measures speed and memory: runs all benchmarks, or the ones that are named."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from . import (
    large_session,
    many_sessions,
    memory,
    reading,
    real,
    redacting,
    rewrites,
    spark,
    start,
    storing,
    supervising,
    tables,
    team,
    tree,
    varied,
    web,
)
from .inputs import CORPUS, REAL, Inputs
from .report import Measure

Bench = Callable[[Inputs], Iterator[Measure]]

BENCHES: dict[str, Bench] = {
    "start": lambda inputs: start.measure(inputs.whole),
    "reading": reading.measure,
    "real-reading": real.reading_measures,
    "redacting": lambda inputs: redacting.measure(inputs.small),
    "tree": lambda inputs: tree.measure(inputs.folder),
    "stream-memory": lambda inputs: memory.measure(CORPUS, inputs.folder),
    "append": lambda inputs: storing.appending(inputs.long_log, inputs.folder),
    "search": lambda inputs: storing.searching(inputs.folder),
    "varied-search": varied.measure,
    "sync": lambda inputs: storing.measure(inputs.more, inputs.folder),
    "sync-memory": lambda inputs: storing.memory_growth(CORPUS, inputs.folder),
    "agentsview": storing.against_agentsview,
    "real-agentsview": real.against_agentsview,
    "real-store": real.store_size,
    "rewrites": rewrites.measure,
    "many-sessions": many_sessions.measure,
    "large-session": large_session.measure,
    "tables": tables.measure,
    "questions": tables.queries,
    "team": team.measure,
    "spark": lambda inputs: spark.measure(inputs.whole),
    "web": lambda inputs: web.measure(CORPUS, inputs.folder),
    "supervising": lambda inputs: supervising.measure(inputs.folder),
}
"""The benchmarks by name. Each can be run alone, in any order."""


def main() -> int:
    """Print each measurement as it is taken; returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHES)} (default: all)")
    parser.add_argument("--copies", type=int, default=1, help="copies of each recording, for more input (default: 1)")
    parser.add_argument(
        "--real",
        type=Path,
        default=REAL,
        metavar="HOME",
        help="a home directory with real sessions (default: %(default)s)",
    )
    parser.add_argument(
        "--sessions", type=int, default=team.SESSIONS, help="size of the store of `team` (default: %(default)s)"
    )
    args = parser.parse_args()
    if unknown := set(args.names) - BENCHES.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(BENCHES)}")
    missed = 0
    with tempfile.TemporaryDirectory(prefix="unspool-bench-") as name:
        inputs = Inputs(Path(name), args.copies, args.real, args.sessions)
        for bench in args.names or BENCHES:
            print(f"--- {bench}", flush=True)
            for measure in BENCHES[bench](inputs):
                print(measure, flush=True)
                missed += not measure.is_within_limits
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
