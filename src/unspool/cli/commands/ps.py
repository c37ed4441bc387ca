"""`unspool ps`: the running agents, with those that need a person first, and their requests."""

from __future__ import annotations

import argparse
from typing import Any

from ...render.sanitize import harmless
from .._shared.client import Server
from .._shared.output import print_json, short_id
from .._shared.request_text import request_lines, request_name, request_summary, warning_lines

EXAMPLES = """examples:
  unspool ps
  unspool ps --full                            with complete requests
  unspool ps --json | jq 'select(.questions != [])'"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--all", action="store_true", help="include agents that have ended")
    parser.add_argument("--full", action="store_true", help="print each open request in full")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per agent; see `unspool schema --output`"
    )


def run(args: argparse.Namespace) -> int:
    """List running agents."""
    runs = [run for run in Server().request("GET", "/api/runs")["runs"] if args.all or run["state"] != "ended"]
    if args.json:
        for found in runs:
            print_json({"type": "run", **found})
        return 0
    if not runs:
        print("No agents are running; start one with `unspool run`")
    for found in runs:
        print(format_run(found))
        for open_request in found["questions"]:
            print("\n".join(request_lines(found, open_request) if args.full else _brief(open_request)))
    return 0


def _brief(open_request: dict[str, Any]) -> list[str]:
    """Format an open request, with the name for answering it."""
    request = open_request["asked"]
    return [
        f"    {request_name(open_request)}  {request_summary(request)}",
        *(f"      {each}" for each in warning_lines(request)),
    ]


def format_run(run: dict[str, Any]) -> str:
    """Format a run as one line."""
    session = short_id(run["session"]) if run["session"] else "-"
    state = run["state"] + (f" ({harmless(run['reason'])})" if run["reason"] else "")
    return f"{run['id']}  {run['agent']:<7} {harmless(session):<14} {state:<14} {harmless(run['folder'])}"
