"""`unspool archive`: sessions the agents are about to delete, and sessions that only the store still has."""

from __future__ import annotations

import argparse

from msgspec.structs import replace

from ...ingest.retention import SessionRetention, session_retentions
from ...render.plain_text import plain_line
from ...render.sanitize import local
from .._shared.options import add_filters, add_json, add_limit, add_sessions, add_source
from .._shared.output import print_json, short_id
from .._shared.records import SessionItem, item_of_row
from .._shared.selection import stored_filter
from .._shared.store import found_rows, open_synced_store
from .._shared.table import AGENT, LAST_ACTIVE, SESSION, TITLE, Column, print_table

EXAMPLES = """examples:
  unspool archive
  unspool archive --json | jq 'select(.gone_at)'"""

_COLUMNS = (AGENT, SESSION, LAST_ACTIVE, Column("on disk", "yellow"), TITLE)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "sessions to look at instead of all")
    parser.add_argument("--days", type=int, default=7, metavar="N", help="deleted within N days (default: 7)")
    parser.add_argument("--all", action="store_true", help="list every session")
    add_limit(parser, "list only the first N")
    add_json(parser)
    add_filters(parser)
    add_source(parser, syncs=True)


def run(args: argparse.Namespace) -> int:
    """Print when each session will be deleted."""
    with open_synced_store(args) as store:
        wanted = stored_filter(args)
        if args.sessions:
            wanted = replace(wanted, ids=tuple(row.id for row in found_rows(store, args.sessions)))
        near = [entry for entry in session_retentions(store, args.home, wanted) if args.all or entry.is_near(args.days)]
    found = near[: args.limit]
    if args.json:
        for entry in found:
            print_json(_item(entry))
        return 0
    if found:
        print_table(_COLUMNS, map(_cells, found))
    gone = sum(entry.is_gone for entry in found)
    print(
        f"{len(found) - gone} about to be deleted by their agent, {gone} only in the store; the store keeps all of them"
    )
    return 0


def _item(entry: SessionRetention) -> SessionItem:
    item = item_of_row(entry.session)
    item.deleted_at = entry.deleted_at
    return item


def _cells(entry: SessionRetention) -> list[str]:
    row = entry.session
    return [row.agent, short_id(row.name), local(row.ended_at), _when(entry), plain_line(row.title or "", 200)]


def _when(entry: SessionRetention) -> str:
    if entry.is_gone:
        return "only in store"
    return f"until {local(entry.deleted_at)[:10]}" if entry.deleted_at is not None else "kept"
