"""`unspool repair`: write a copy of a damaged session that its agent can resume."""

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
  unspool repair ./torn.jsonl --to repaired.jsonl
  unspool repair latest --to ~/elsewhere/ --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "sessions", nargs=1, metavar="SESSION", help="session id, the start of one, a file, or `latest`"
    )
    add_places(parser)
    parser.add_argument(
        "--to", metavar="PATH",
        help="a file, or a directory laid out like a home directory (default: `repaired` in unspool's data directory)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the result as a JSON object")


def run(args: argparse.Namespace) -> int:
    """Write the copy, and print what was changed."""
    target = expanded(args.to) if args.to else None
    is_folder = target is None or args.to.endswith("/") or target.is_dir()
    for library, ref in choose(args):
        if not isinstance(library, Library):
            raise UnspoolError(f"{ref.id} exists only in the archive; run `unspool restore` first")
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
        print("Nothing to repair: this is an exact copy")
    for what, count in done.changes.items():
        print(f"{count:>5}  {what}")
    for what, count in done.left.items():
        print(f"{count:>5}  {what} (could not be repaired)")
    agent = AGENTS[done.agent].info
    command = shlex.join(part.replace("{id}", done.session) for part in agent.resume)
    remark(f"To continue it, copy it to the same place below ~/{agent.folder}, then run: {command}")
