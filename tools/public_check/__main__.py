"""`python -m tools.public_check HOME`: recount public sessions from their raw JSON and compare with unspool's record.

Prints one line per check and agent, and the session and line of every difference, but never any content. The exit code
is 1 if there are differences that nothing explains.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from .compare import Comparison, Group
from .raw import copied_requests, facts, plan_starts
from .recorded import RecordedSession, listed_titles, recorded_sessions


def groups(sessions: Iterable[RecordedSession]) -> Iterator[Group]:
    """Yield each session with its raw facts and the sub-agents in its log, which directly follow it."""
    together: list[RecordedSession] = []
    for session in sessions:
        if together and session.is_main | (session.logs != together[0].logs):
            yield _group(together)
            together = []
        together.append(session)
    if together:
        yield _group(together)


def _group(together: list[RecordedSession]) -> Group:
    main = together[0]
    return Group(together, {path: list(facts(main.agent, path)) for path in main.logs if path.exists()})


def compare(home: Path) -> Comparison:
    """Run all checks on a home directory."""
    copied = copied_requests(home / ".codex")
    comparison = Comparison(plan_starts(home / ".claude"), listed_titles(home), copied)
    for group in groups(recorded_sessions(home)):
        comparison.add(group)
    comparison.finish_usage()
    return comparison


def report(comparison: Comparison, most: int) -> Iterator[str]:
    """Yield the lines to print, with at most `most` differences of each check."""
    for (agent, check), tally in sorted(comparison.tallies.items()):
        counts = f"raw {tally.raw:>9,}  unspool {tally.recorded:>9,}  explained {tally.explained:>6,}"
        yield f"{agent:<7} {check:<12} {counts}  differences {len(tally.differences):>5,}"
        for session, line, what in tally.differences[:most]:
            yield f"    {session}:{line}  {what}"
        if len(tally.differences) > most:
            yield f"    and {len(tally.differences) - most:,} more"


def main(arguments: list[str] | None = None) -> int:
    """Run the checks; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.public_check", description=__doc__)
    parser.add_argument("home", type=Path, metavar="HOME", help="a directory with .claude, .codex and .gemini")
    parser.add_argument("--most", type=int, default=20, metavar="N", help="print at most N differences of each check")
    args = parser.parse_args(arguments)
    comparison = compare(args.home)
    for line in report(comparison, args.most):
        print(line)
    return int(any(tally.differences for tally in comparison.tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
