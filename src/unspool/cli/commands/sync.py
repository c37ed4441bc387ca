"""`unspool sync`: import new and changed sessions into the store."""

from __future__ import annotations

import argparse

from ...core.plural import counted
from ...store import open_store
from ...store.maintenance import Maintenance
from .._shared.output import complain, print_json, remark
from .._shared.store import add_store, sync

EXAMPLES = """examples:
  unspool sync
  unspool sync --store postgresql://team.example/unspool"""

_LITTLE_BYTES = 1 << 20
"""A sync that reads less than this has time left to maintain the store."""
_MAINTENANCE_SECONDS = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_store(parser, syncs=False)
    parser.add_argument("--compact", action="store_true", help="then make the store as small as possible")
    parser.add_argument("--json", action="store_true", help="print the result as a JSON object")


def run(args: argparse.Namespace) -> int:
    """Import what has changed."""
    store = open_store(args.store)
    try:
        report = sync(store, args.home)
        if args.compact or report.bytes < _LITTLE_BYTES:
            Maintenance(store).run(None if args.compact else _MAINTENANCE_SECONDS)
    finally:
        store.close()
    if args.json:
        print_json(report)
    else:
        megabytes = f"{report.bytes / 1e6:,.1f} MB in {report.seconds:.2f} s"
        print(f"{report.new:,} new, {report.changed:,} changed, {report.gone:,} deleted from disk; {megabytes}")
        for name, why in report.failures.items():
            complain(f"cannot read {name}: {why}")
        if report.failures:
            count = counted(len(report.failures), "item")
            remark(f"{count} could not be read. What the store has of them stays; the next sync tries again.")
    return 1 if report.failures else 0
