"""`unspool repair`: a copy of a damaged session that its agent can go on with."""

from __future__ import annotations

import argparse
import shlex

from ...agents import AGENTS
from ...core.errors import UnspoolError
from ...library import Library, expanded
from ...render.sanitize import harmless
from ...repair import Repair, repair_session
from .._shared.options import add_places, choose
from .._shared.output import print_json, remark

EXAMPLES = """examples:
  unspool repair 37c23
  unspool repair ./torn.jsonl --to mended.jsonl
  unspool repair latest --to ~/elsewhere/ --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("sessions", nargs=1, metavar="SESSION", help="an id, its beginning, a file, or `latest`")
    add_places(parser)
    parser.add_argument(
        "--to", metavar="PATH",
        help="a file, or a folder that gets the agents' own layout (default: `repaired` in unspool's data folder)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="what was done, as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Write the copy, and say what was done."""
    target = expanded(args.to) if args.to else None
    is_folder = target is None or args.to.endswith("/") or target.is_dir()
    for library, ref in choose(args):
        if not isinstance(library, Library):
            raise UnspoolError(f"{ref.id} is gone from disk; `unspool restore` writes what the store kept of it")
        done = repair_session(library, ref, target, is_folder=is_folder)
        if args.json:
            print_json(done)
        else:
            _print(done)
        return 0
    return 1


def _print(done: Repair) -> None:
    for file in done.files:
        print(f"{harmless(file.path)}  {file.size:,} bytes")
    if not done.changes:
        print("nothing had to be repaired: this is a plain copy")
    for what, count in done.changes.items():
        print(f"{count:>5}  {what}")
    for what, count in done.left.items():
        print(f"{count:>5}  {what}, which could not be repaired")
    agent = AGENTS[done.agent].info
    command = shlex.join(part.replace("{id}", done.session) for part in agent.resume)
    remark(f"{agent.title} goes on with it once it lies in its folder: {command}")
