"""`unspool deny`: deny a request of an agent, with or without a reason."""

from __future__ import annotations

import argparse

from .._shared.decide import add_request_arguments, answer_request

EXAMPLES = """examples:
  unspool deny                                 show the only open request, and ask
  unspool deny 3f2a ask-1:9f86d081884c --reason "use the dataclass we have"
  unspool deny 3f2a --stop                     and stop the turn

Without a terminal, the request must be named with its digest."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_request_arguments(parser)
    parser.add_argument("--reason", help="the reason, which is sent to the model")
    parser.add_argument("--stop", action="store_true", help="also stop the turn")


def run(args: argparse.Namespace) -> int:
    """Deny the request."""
    return answer_request(args, "deny", "deny_stop" if args.stop else "deny", args.reason)
