"""`unspool approve`: allow a request of an agent."""

from __future__ import annotations

import argparse

from .._shared.decide import add_request_arguments, answer_request

EXAMPLES = """examples:
  unspool approve                              show the only open request, and ask
  unspool approve 3f2a ask-1:9f86d081884c      exactly this request, as `unspool ps` printed it
  unspool approve 3f2a --session               and do not ask again in this session

Without a terminal, the request must be named with its digest."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_request_arguments(parser)
    parser.add_argument(
        "--session", action="store_true", help="allow it for the rest of the session; the request says what that allows"
    )


def run(args: argparse.Namespace) -> int:
    """Allow the request."""
    return answer_request(args, "approve", "allow_session" if args.session else "allow", None)
