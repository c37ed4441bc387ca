"""`unspool interrupt`: stop the current turn of an agent, which then waits for the next message."""

from __future__ import annotations

import argparse

from .._shared.client import Server, path_of, who
from .._shared.output import print_json
from .ps import format_run

EXAMPLES = """examples:
  unspool interrupt
  unspool interrupt 3f2a"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("agent", nargs="?", help="prefix of its id or session (default: the only one)")
    parser.add_argument("--json", action="store_true", help="print the agent as JSON")


def run(args: argparse.Namespace) -> int:
    """Stop the current turn."""
    return act_on_run(args, "interrupt")


def act_on_run(args: argparse.Namespace, action: str) -> int:
    """Perform an action on an agent and print its new state."""
    server = Server()
    after = server.request("POST", path_of(server.find(args.agent)["id"], action), {"who": who()})
    print_json({"type": "run", **after}) if args.json else print(format_run(after))
    return 0
