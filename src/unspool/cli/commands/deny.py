"""`unspool deny`: deny a request of an agent, with or without a reason."""

from __future__ import annotations

import argparse

from .approve import add_request_arguments, answer_request

EXAMPLES = """examples:
  unspool deny
  unspool deny 3f2a --reason "use the dataclass we have"
  unspool deny --stop                 and stop the turn"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_request_arguments(parser)
    parser.add_argument("--reason", help="the reason, which the model gets")
    parser.add_argument("--stop", action="store_true", help="also stop the turn")


def run(args: argparse.Namespace) -> int:
    """Deny the request."""
    return answer_request(args, "deny_stop" if args.stop else "deny", args.reason)
