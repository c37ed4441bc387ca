"""`unspool deny`: refuse what an agent asks for, with or without a reason."""

from __future__ import annotations

import argparse

from .approve import add_question, give

EXAMPLES = """examples:
  unspool deny
  unspool deny 3f2a --reason "use the dataclass we have"
  unspool deny --stop                 and stop the turn"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_question(parser)
    parser.add_argument("--reason", help="what the agent should know; it steers what it does next")
    parser.add_argument("--stop", action="store_true", help="stop the turn as well")


def run(args: argparse.Namespace) -> int:
    """Refuse it."""
    return give(args, "deny_stop" if args.stop else "deny", args.reason)
