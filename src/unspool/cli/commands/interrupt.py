"""`unspool interrupt`: stop the turn of a running agent; it can be told something else then."""

from __future__ import annotations

import argparse

from .._shared.client import Server, path_of, who
from .._shared.output import print_json
from .ps import line_of

EXAMPLES = """examples:
  unspool interrupt
  unspool interrupt 3f2a"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("agent", nargs="?", help="beginning of its id or session (default: the only one)")
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> int:
    """Stop the turn."""
    return do(args, "interrupt")


def do(args: argparse.Namespace, what: str) -> int:
    """Do something to an agent, and say how it is then."""
    server = Server()
    after = server.ask("POST", path_of(server.find(args.agent)["id"], what), {"who": who()})
    print_json(after) if args.json else print(line_of(after))
    return 0
