"""`unspool approve`: allow a request of an agent."""

from __future__ import annotations

import argparse

from .._shared.client import Server
from .._shared.output import print_json
from .attach import answer
from .ps import format_request

EXAMPLES = """examples:
  unspool approve
  unspool approve 3f2a --session      and do not ask again in this session"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_request_arguments(parser)
    parser.add_argument("--session", action="store_true", help="also allow similar requests in this session")


def add_request_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that select an agent and one of its requests."""
    parser.add_argument("agent", nargs="?", help="prefix of its id or session (default: the only one with a request)")
    parser.add_argument("--request", help="prefix of the request id (default: the first request)")
    parser.add_argument("--json", action="store_true", help="print the answered request as JSON")


def run(args: argparse.Namespace) -> int:
    """Allow the request."""
    return answer_request(args, "allow_session" if args.session else "allow", None)


def answer_request(args: argparse.Namespace, verdict: str, reason: str | None) -> int:
    """Answer a request and print it."""
    server = Server()
    opened = answer(server, server.find(args.agent), args.request, verdict, reason)
    if args.json:
        print_json({"verdict": verdict, "reason": reason, "question": opened})
    else:
        print(f"{verdict.replace('_', ' ')}: {format_request(opened['asked'])}")
    return 0
