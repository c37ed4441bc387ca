"""`unspool approve`: allow what an agent asks for."""

from __future__ import annotations

import argparse

from .._shared.client import Server
from .._shared.output import print_json
from .attach import answer
from .ps import told

EXAMPLES = """examples:
  unspool approve
  unspool approve 3f2a --session      and do not ask again in this session"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_question(parser)
    parser.add_argument("--session", action="store_true", help="allow the like for the rest of the session")


def add_question(parser: argparse.ArgumentParser) -> None:
    """Which agent, and which of its questions."""
    parser.add_argument("agent", nargs="?", help="beginning of its id or session (default: the only one that asks)")
    parser.add_argument("--request", help="which of its questions (default: the first)")
    parser.add_argument("--json", action="store_true", help="the question that was answered")


def run(args: argparse.Namespace) -> int:
    """Allow it."""
    return give(args, "allow_session" if args.session else "allow", None)


def give(args: argparse.Namespace, verdict: str, reason: str | None) -> int:
    """Answer, and say what was answered."""
    server = Server()
    question = answer(server, server.find(args.agent), args.request, verdict, reason)
    if args.json:
        print_json({"verdict": verdict, "reason": reason, "question": question})
    else:
        print(f"{verdict.replace('_', ' ')}: {told(question['asked'])}")
    return 0
