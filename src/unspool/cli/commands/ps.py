"""`unspool ps`: the agents that run here, with what needs a person on top."""

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
    parser.add_argument("--all", action="store_true", help="also those that have ended")
    parser.add_argument("--json", action="store_true", help="a JSON list")


def run(args: argparse.Namespace) -> int:
    """List them."""
    runs = [run for run in Server().ask("GET", "/api/runs")["runs"] if args.all or run["state"] != "ended"]
    if args.json:
        print_json(runs)
        return 0
    if not runs:
        print("no agent runs; start one with `unspool run`")
    for found in runs:
        print(line_of(found))
        for question in found["questions"]:
            print(f"    asks: {told(question['asked'])}")
    return 0


def line_of(run: dict[str, Any]) -> str:
    """An agent in a line."""
    session = short_id(run["session"]) if run["session"] else "-"
    state = run["state"] + (f" ({harmless(run['reason'])})" if run["reason"] else "")
    return f"{run['id']}  {run['agent']:<7} {harmless(session):<14} {state:<14} {harmless(run['folder'])}"


def told(asked: dict[str, Any]) -> str:
    """What an agent asks, in a line."""
    return f"{harmless(asked['tool'])} {one_line(asked['title'], 100)}"
