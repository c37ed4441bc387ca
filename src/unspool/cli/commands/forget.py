"""`unspool forget`: remove a session from the store permanently. The agents' own files are never touched."""

from __future__ import annotations

import argparse
import sys

from ...core.errors import UsageError
from ...core.plural import counted
from ...core.resolve import resolve_name
from ...ingest.session import forget_session
from ...render.plain_text import plain_line
from ...render.sanitize import local
from ...store.rows import SessionRow
from ...store.sessions import check_removable
from .._shared.options import add_filters, add_json, add_limit, add_sessions, add_source
from .._shared.output import print_json, short_id
from .._shared.records import item_of_row
from .._shared.selection import Filter
from .._shared.store import open_synced_store, selected_rows
from .._shared.table import AGENT, SESSION, Column, print_table

EXAMPLES = """examples:
  unspool forget 37c23
  unspool forget 37c23 --yes
  unspool forget --list
  unspool forget --lift 37c23      allow it to be imported again"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "sessions to forget")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--any-machine", action="store_true", help="also remove a session of another machine")
    parser.add_argument(
        "--until-seen-again", action="store_true", help="import it again if `sync` or `push` finds it on disk"
    )
    parser.add_argument("--list", action="store_true", help="list forgotten sessions, which are not imported again")
    parser.add_argument("--lift", action="store_true", help="allow forgotten sessions to be imported again")
    add_limit(parser, "only the newest N sessions")
    add_json(parser)
    add_filters(parser)
    add_source(parser, syncs=True)


def run(args: argparse.Namespace) -> int:
    """List, lift, or remove after confirmation."""
    if args.list:
        return _list(args)
    return _lift(args) if args.lift else _forget(args)


def _list(args: argparse.Namespace) -> int:
    with open_synced_store(args) as store:
        keep = Filter(args)
        found = [session for session in store.forgotten.all() if keep.takes_agent(session.agent)][: args.limit]
    if args.json:
        for session in found:
            print_json(session)
    elif found:
        rows = [[session.agent, short_id(session.name), local(session.at)] for session in found]
        print_table((AGENT, SESSION, Column("forgotten")), rows)
    else:
        print("No sessions were forgotten")
    return 0


def _lift(args: argparse.Namespace) -> int:
    if not args.sessions:
        raise UsageError("name a session; `unspool forget --list` lists forgotten sessions")
    args.no_sync = True
    with open_synced_store(args, writes=True) as store:
        known = store.forgotten.all()
        for name in args.sessions:
            for session in resolve_name(name, known, lambda session: session.name, lambda: len(known)):
                store.forgotten.lift(session)
                print(f"{session.name} will be imported again by the next sync or push, if its files are on disk")
    return 0


def _forget(args: argparse.Namespace) -> int:
    with open_synced_store(args, writes=True) as store:
        rows = selected_rows(store, args)
        if not rows:
            raise UsageError("no session to forget; name one, or use filters; --list lists forgotten sessions")
        for row in rows:
            check_removable(store.database, row, of_any_machine=args.any_machine)
        if not args.yes and not _is_confirmed(rows, args.until_seen_again):
            print("Nothing removed")
            return 1
        with store.exclusive(), store.transaction():
            for row in rows:
                forget_session(store, row, until_seen_again=args.until_seen_again)
    if args.json:
        for row in rows:
            print_json(item_of_row(row))
        return 0
    print(f"{len(rows)} removed")
    if not args.until_seen_again:
        names = " ".join(short_id(row.name) for row in rows)
        print(f"`sync` and `push` leave {'it' if len(rows) == 1 else 'them'} out from now on; to change that, run:")
        print(f"unspool forget --lift {names}")
    return 0


def _is_confirmed(rows: list[SessionRow], until_seen_again: bool) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("forget cannot be undone; add --yes to confirm")
    on_disk = "also on disk: the next sync imports it again" if until_seen_again else "its files on disk stay"
    for row in rows:
        where = "only in the store" if row.gone_at else on_disk
        print(f"{row.name}  {plain_line(row.title or '')}  ({counted(row.messages, 'message')}, {where})")
    return input("Remove permanently? [y/N] ").strip().lower() in ("y", "yes")
