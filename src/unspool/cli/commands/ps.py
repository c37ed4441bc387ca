"""`unspool ps`: the running agents, with those that need a person first."""

from __future__ import annotations

import argparse
from typing import Any

from ...render.sanitize import harmless, one_line
from .._shared.client import Server
from .._shared.output import print_json, short_id

EXAMPLES = """examples:
  unspool ps
  unspool ps --json | jq '.[] | select(.questions != [])'"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--all", action="store_true", help="include agents that have ended")
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def run(args: argparse.Namespace) -> int:
    """List running agents."""
    runs = [run for run in Server().ask("GET", "/api/runs")["runs"] if args.all or run["state"] != "ended"]
    if args.json:
        print_json(runs)
        return 0
    if not runs:
        print("No agents are running; start one with `unspool run`")
    for found in runs:
        print(format_run(found))
        for opened in found["questions"]:
            print(f"    asks: {format_request(opened['asked'])}")
    return 0


def format_run(run: dict[str, Any]) -> str:
    """A run as one line."""
    session = short_id(run["session"]) if run["session"] else "-"
    state = run["state"] + (f" ({harmless(run['reason'])})" if run["reason"] else "")
    return f"{run['id']}  {run['agent']:<7} {harmless(session):<14} {state:<14} {harmless(run['folder'])}"


def format_request(request: dict[str, Any]) -> str:
    """A request as one line."""
    return f"{harmless(request['tool'])} {one_line(request['title'], 100)}"
