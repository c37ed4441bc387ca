"""`unspool run`: start an agent under the server that runs here, or go on with a past session."""

from __future__ import annotations

import argparse
import os
import uuid

from ...core.errors import UsageError
from .._shared.client import Server, who
from .._shared.output import print_json
from .attach import follow

EXAMPLES = """examples:
  unspool run "fix the failing tests"
  unspool run --agent codex --folder ~/demo "what does this do?"
  unspool run --resume 37c23 "now the documentation"
  unspool run --resume 37c23 --fork-at 40 "try it with a dataclass"
  unspool run --detach "write a changelog"     and `unspool attach` later"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("prompt", help="what to say to it")
    parser.add_argument("--agent", help="claude, codex or gemini (default: claude)")
    parser.add_argument("--folder", help="where it works (default: this folder, or that of the session)")
    parser.add_argument("--resume", metavar="SESSION", help="go on with a past session")
    parser.add_argument("--fork-at", type=int, metavar="N", help="fork that session after message N")
    parser.add_argument("--fork", action="store_true", help="fork that session at its end")
    parser.add_argument("--mode", help="how much it may do by itself; the agent's own names")
    parser.add_argument("--model")
    parser.add_argument("--take-over", action="store_true", help="even though another program seems to work on it")
    parser.add_argument("--detach", action="store_true", help="only start it")
    parser.add_argument("--json", action="store_true", help="what happens, one JSON object a line")


def run(args: argparse.Namespace) -> int:
    """Start it, and follow it."""
    if args.resume is None and (args.fork or args.fork_at is not None):
        raise UsageError("--fork and --fork-at need --resume SESSION")
    server = Server()
    since = server.ask("GET", "/api/runs")["seq"]
    body = {
        "agent": args.agent or (None if args.resume else "claude"), "session": args.resume, "at": args.fork_at,
        "folder": _folder(args), "fork": args.fork, "mode": args.mode, "model": args.model,
        "take_over": args.take_over, "prompt": args.prompt,
        "message_id": uuid.uuid4().hex, "who": who(),
    }  # fmt: skip
    started = server.ask("POST", "/api/runs", body)
    if args.detach:
        print_json(started["run"]) if args.json else print(started["run"]["id"])
        return 0
    return follow(server, started["run"]["id"], since, as_json=args.json, until_idle=True)


def _folder(args: argparse.Namespace) -> str | None:
    if args.folder:
        return os.path.abspath(os.path.expanduser(str(args.folder)))
    return None if args.resume else os.getcwd()
