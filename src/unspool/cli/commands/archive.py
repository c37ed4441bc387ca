"""`unspool archive`: sessions the agents are about to delete, and sessions that only the store still has."""

from __future__ import annotations

import argparse

from ...ingest.retention import Fate, fates
from ...render.sanitize import local
from .._shared.output import print_json, print_table, short_id
from .._shared.store import add_store, opened

EXAMPLES = """examples:
  unspool archive
  unspool archive --json | jq 'select(.gone)'"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--days", type=int, default=7, metavar="N", help="deleted within N days (default: 7)")
    parser.add_argument("--all", action="store_true", help="list every session")
    parser.add_argument("--json", action="store_true", help="print one JSON object per session")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Print when each session will be deleted."""
    with opened(args) as store:
        found = [fate for fate in fates(store, args.home) if args.all or fate.is_near(args.days)]
    if args.json:
        for fate in found:
            print_json(fate)
        return 0
    rows = [[fate.agent, short_id(fate.session), local(fate.last), _when(fate), fate.title or ""] for fate in found]
    if rows:
        print_table(
            ("agent", "session", "last active", "on disk", "title"), rows, wrap=4, styles=("cyan", "", "dim", "yellow")
        )
    gone = sum(fate.gone for fate in found)
    print(
        f"{len(found) - gone} about to be deleted by their agent, {gone} only in the store; the store keeps all of them"
    )
    return 0


def _when(fate: Fate) -> str:
    if fate.gone:
        return "only in store"
    return f"until {local(fate.deleted_at)[:10]}" if fate.deleted_at is not None else "kept"
