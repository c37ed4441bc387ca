"""`unspool forget`: remove a session from the store permanently. The agents' own files are never touched."""

from __future__ import annotations

import argparse
import sys

from ...core.errors import UsageError
from ...render.sanitize import one_line
from .._shared.store import add_store, opened

EXAMPLES = """examples:
  unspool forget 37c23
  unspool forget 37c23 --yes"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("session", metavar="SESSION", nargs="+", help="session id, or the start of one")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--any-machine", action="store_true", help="also remove a session of another machine")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Ask for confirmation, then remove."""
    with opened(args, writes=True) as store:
        rows = [store.sessions.find(name, is_exact=True) for name in args.session]
        for row in rows:
            store.sessions.check_removable(row, of_any_machine=args.any_machine)
        if not args.yes:
            if not sys.stdin.isatty():
                raise UsageError("forget cannot be undone; add --yes to confirm")
            for row in rows:
                where = "only in the store" if row.gone_at else "also on disk: the next sync imports it again"
                print(f"{row.name}  {one_line(row.title or '')}  ({row.messages} messages, {where})")
            if input("Remove permanently? [y/N] ").strip().lower() not in ("y", "yes"):
                print("Nothing removed")
                return 1
        with store.exclusive(), store.transaction():
            for row in rows:
                store.sessions.delete(row.id)
                store.changes.append("session.forgotten", row.id, agent=row.agent, name=row.name)
    print(f"{len(rows)} removed")
    return 0
