"""`unspool sync`: import new and changed sessions into the store."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ...agents import Peek, SessionRef
from ...core.plural import counted
from ...ingest.sync_selection import SessionTest, SyncSelection
from ...store import open_store
from ...store.maintenance import Maintenance
from .._shared.options import add_filters, add_json, add_limit, add_sessions, add_source
from .._shared.output import print_error, print_json, print_note
from .._shared.selection import Filter, choose
from .._shared.store import sync

EXAMPLES = """examples:
  unspool sync
  unspool sync --project tidepool --since 7d
  unspool sync --store postgresql://team.example/unspool"""

_LITTLE_BYTES = 1 << 20
"""If a sync reads less than this, it also maintains the store."""
_MAINTENANCE_SECONDS = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--compact", action="store_true", help="also make the store as small as possible")
    add_sessions(parser, "sessions to import instead of all")
    add_limit(parser, "import only the newest N of the sessions that have changed")
    add_json(parser, "the result as a JSON object")
    add_filters(parser, of_events=False)
    add_source(parser)


def _only(args: argparse.Namespace) -> SessionTest | None:
    """Return a test for the sessions to import; None for all."""
    keep = Filter(args)
    named = {(ref.agent, ref.id) for _, ref in choose(args)} if args.sessions else None
    if named is None and not (args.agent or keep.needs_peek):
        return None

    def is_wanted(ref: SessionRef, peek: Callable[[], Peek]) -> bool:
        if not keep.takes(ref) or not (named is None or (ref.agent, ref.id) in named):
            return False
        return not keep.needs_peek or keep.takes_peek(peek())

    return is_wanted


def run(args: argparse.Namespace) -> int:
    """Import changed sessions."""
    store = open_store(args.store)
    try:
        report = sync(store, args.home, selection=SyncSelection(_only(args), args.limit))
        if args.compact or report.bytes < _LITTLE_BYTES:
            Maintenance(store, everything=args.compact).run(None if args.compact else _MAINTENANCE_SECONDS)
    finally:
        store.close()
    if args.json:
        print_json(report)
    else:
        megabytes = f"{report.bytes / 1e6:,.1f} MB in {report.seconds:.2f} s"
        print(f"{report.new:,} new, {report.changed:,} changed, {report.gone:,} deleted from disk; {megabytes}")
        for name, why in report.failures.items():
            print_error(f"cannot read {name}: {why}")
        if report.failures:
            count = counted(len(report.failures), "item")
            print_note(f"{count} could not be read. The store keeps its copies, and the next sync tries again.")
    return 1 if report.failures else 0
