"""`unspool show`: show a session in the terminal."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from rich.console import RenderableType

from ...agents import agent_named
from ...core.decisions import main_session
from ...render.terminal import render_terminal
from ...store.decision_log import recorded_decisions
from .._shared.options import add_json, add_session, add_source, add_view, is_terminal
from .._shared.output import console, print_json, print_pieces
from .._shared.selection import choose_one

EXAMPLES = """examples:
  unspool show latest
  unspool show 3fc883 --branches all --full
  unspool show ./rollout-2026-11-15T18-35-32-….jsonl | less"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_session(parser)
    add_source(parser)
    add_view(parser, branches="active")
    parser.add_argument("--full", action="store_true", help="show outputs, thinking and notes in full")
    parser.add_argument("--no-pager", action="store_true", help="print without a pager")
    add_json(parser, "the record as JSON")


def run(args: argparse.Namespace) -> int:
    """Show the session."""
    if args.json:
        for catalog, ref in choose_one(args):
            for session in catalog.load_all(ref, args.tip, args.branches, args.orphans):
                print_json(session)
    elif is_terminal() and not args.no_pager:
        # Like git: keep colours, and do not page output that fits on the screen.
        os.environ.setdefault("LESS", "FRX")
        out = console()
        with out.pager(styles=True):
            for piece in _pieces(args):
                out.print(piece)
    else:
        print_pieces(_pieces(args))
    return 0


def _pieces(args: argparse.Namespace) -> Iterator[RenderableType]:
    """Yield the session, followed by the sub-agents in the same file."""
    for catalog, ref in choose_one(args):
        # Message numbers are those of the whole record, so that they work with `context --at`.
        for session in catalog.load_all(ref, args.tip, "all", args.orphans):
            describe = agent_named(session.agent).describe
            yield from render_terminal(
                session,
                describe,
                args.branches,
                full=args.full,
                plain=not is_terminal(),
                decisions=recorded_decisions(session.agent, main_session(session.id)),
            )
