"""`unspool push`: give this computer's sessions to another store, a team's most often."""

from __future__ import annotations

import argparse

from ...core.errors import NotFoundError
from ...ingest.push import push_kept
from ...store import open_store
from .._shared.output import complain, print_json
from .._shared.store import sync

EXAMPLES = """examples:
  unspool push postgresql://team.example/unspool
  unspool search --store postgresql://team.example/unspool 'frozen dataclass'"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("target", metavar="STORE", help="postgresql://…, or a file")
    parser.add_argument("--store", metavar="PLACE", help="where sessions that are gone from disk come from")
    parser.add_argument("--home", metavar="DIR", action="append", default=[], help="a home directory with the sessions")
    parser.add_argument("--json", action="store_true", help="what was done as a JSON object")


def run(args: argparse.Namespace) -> int:
    """Send what is new on disk, and what only the own store has."""
    target = open_store(args.target)
    kept = 0
    try:
        report = sync(target, args.home)
        try:
            source = open_store(args.store, read_only=args.store is None)
        except NotFoundError:
            source = None
        if source is not None:
            kept = push_kept(source, target)
            source.close()
    finally:
        target.close()
    if args.json:
        print_json({"new": report.new, "changed": report.changed, "kept": kept, "failures": report.failures})
    else:
        print(f"{report.new:,} new, {report.changed:,} changed, {kept:,} that are gone from disk")
        for name, why in report.failures.items():
            complain(f"{name}: {why}")
    return 1 if report.failures else 0
