"""`unspool show`: a session to read in the terminal."""

from __future__ import annotations

import argparse

from rich.console import Console

from ..agents import AGENTS
from ..render.terminal import render_terminal
from .options import add_places, add_view, choose, is_terminal
from .output import print_json

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
        session = next(library.load_all(ref, args.tip, args.branches, args.orphans))
        if args.json:
            print_json(session)
            continue
        pieces = render_terminal(session, AGENTS[session.agent].describe, full=args.full)
        console = Console(highlight=False)
        if is_terminal() and not args.no_pager:
            with console.pager(styles=True):
                for piece in pieces:
                    console.print(piece)
        else:
            for piece in pieces:
                console.print(piece)
    return 0
