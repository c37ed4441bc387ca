"""`unspool run`: start an agent under the local server, or resume a session."""

from __future__ import annotations

import argparse
import os
import uuid

from ...agents import AGENTS
from ...core.errors import UsageError
from .._shared.client import Server, who
from .._shared.output import print_json, print_note
from .attach import Attached

EXAMPLES = """examples:
  unspool run "fix the failing tests"
  unspool run --agent codex --folder ~/demo "what does this do?"
  unspool run --resume 37c23 "now the documentation"
  unspool run --resume 37c23 --fork-at 40 "try it with a dataclass"
  unspool run --detach "write a changelog"     and `unspool attach` later"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("prompt", help="the first message to the agent")
    parser.add_argument("--agent", help=f"{', '.join(_names())} (default: {_names()[0]})")
    parser.add_argument("--folder", help="directory to work in (default: the current one, or that of the session)")
    parser.add_argument("--resume", metavar="SESSION", help="resume a session")
    parser.add_argument("--fork-at", type=int, metavar="N", help="fork the session after message N")
    parser.add_argument("--fork", action="store_true", help="fork the session at its end")
    parser.add_argument("--mode", help="permission mode, as the agent calls it")
    parser.add_argument("--model", help="model to use")
    parser.add_argument("--sandbox", action="store_true", help="hide unspool's data from the agent (needs bubblewrap)")
    parser.add_argument("--take-over", action="store_true", help="resume even if another program uses the session")
    parser.add_argument("--detach", action="store_true", help="start the agent without following it")
    parser.add_argument("--json", action="store_true", help="print events as JSON, one per line")


def run(args: argparse.Namespace) -> int:
    """Start an agent and follow it."""
    if args.resume is None and (args.fork or args.fork_at is not None):
        option = "--fork" if args.fork else "--fork-at"
        raise UsageError(f"`{option}` needs a session to fork from; add --resume SESSION")
    server = Server()
    since = server.request("GET", "/api/runs")["seq"]
    body = {
        "agent": args.agent or (None if args.resume else _names()[0]), "session": args.resume, "at": args.fork_at,
        "folder": _folder(args), "fork": args.fork, "mode": args.mode, "model": args.model,
        "sandbox": args.sandbox, "take_over": args.take_over, "prompt": args.prompt,
        "message_id": uuid.uuid4().hex, "who": who(),
    }  # fmt: skip
    started = server.request("POST", "/api/runs", body)
    if started["run"]["warning"]:
        print_note(started["run"]["warning"])
    if args.detach:
        print_json({"type": "run", **started["run"]}) if args.json else print(started["run"]["id"])
        return 0
    return Attached(server, started["run"], as_json=args.json).follow(since, until_idle=True)


def _names() -> list[str]:
    """Return the agents that can be run; the first is the default."""
    return [name for name, agent in AGENTS.items() if agent.info.driver is not None]


def _folder(args: argparse.Namespace) -> str | None:
    if args.folder:
        return os.path.abspath(os.path.expanduser(str(args.folder)))
    return None if args.resume else os.getcwd()
