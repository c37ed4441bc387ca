"""`unspool push`: copy the sessions of this computer to another store, usually a team's."""

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
    parser.add_argument("target", metavar="STORE", help="postgresql://… or a file")
    parser.add_argument(
        "--store", metavar="PLACE", help="the store that has the sessions deleted from disk (default: yours)"
    )
    parser.add_argument(
        "--home",
        metavar="DIR",
        action="append",
        default=[],
        help="a home directory that contains the sessions; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print the result as a JSON object")


def run(args: argparse.Namespace) -> int:
    """Copy what is new on disk, and what only your own store has."""
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
        print(f"{report.new:,} new, {report.changed:,} changed, {kept:,} deleted from disk")
        for name, why in report.failures.items():
            complain(f"{name}: {why}")
    return 1 if report.failures else 0
