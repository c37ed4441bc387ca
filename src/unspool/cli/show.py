"""`unspool show`: a session to read in the terminal."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from ..agents import AGENTS
from ..render.terminal import render_terminal
from .options import add_places, add_view, choose, is_terminal
from .output import console, print_json

EXAMPLES = """examples:
  unspool show latest
  unspool show 3fc883 --branches all --full
  unspool show ./rollout-2026-11-15T18-35-32-….jsonl | less"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("sessions", nargs=1, metavar="SESSION", help="an id, its beginning, a file, or `latest`")
    add_places(parser)
    add_view(parser, branches="active")
    parser.add_argument("--full", action="store_true", help="all of every output, thought and note")
    parser.add_argument("--no-pager", action="store_true")
    parser.add_argument("--json", action="store_true", help="the record instead of the text")


def run(args: argparse.Namespace) -> int:
    """Show the session."""
    for library, ref in choose(args):
        if args.json:
            print_json(next(library.load_all(ref, args.tip, args.branches, args.orphans)))
            continue
        # The numbers a reader sees are those of the whole record: `context --at` takes them.
        session = next(library.load_all(ref, args.tip, "all", args.orphans))
        pieces = render_terminal(session, AGENTS[session.agent].describe, args.branches, full=args.full)
        out = console()
        with out.pager(styles=True) if is_terminal() and not args.no_pager else nullcontext():
            for piece in pieces:
                out.print(piece)
    return 0
