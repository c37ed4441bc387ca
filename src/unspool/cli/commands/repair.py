"""`unspool repair`: write a copy of a damaged session that its agent can resume."""

from __future__ import annotations

import argparse
import shlex

import msgspec

from ...agents import AGENTS
from ...core.errors import UnspoolError
from ...library import expanded
from ...render.sanitize import harmless
from ...repair import Repair, RepairedFile, repair_session
from .._shared.options import add_json, add_session, add_source
from .._shared.output import print_json, print_note
from .._shared.records import SessionName, session_name
from .._shared.selection import choose_one

EXAMPLES = """examples:
  unspool repair 37c23
  unspool repair ./torn.jsonl --to repaired.jsonl
  unspool repair latest --to ~/elsewhere/ --json"""


class SessionRepair(msgspec.Struct, kw_only=True):
    """The result of a repair: the files of the copy and the changes in it."""

    session: SessionName
    files: list[RepairedFile]
    changes: dict[str, int]
    """The number of repairs by kind; empty if there was nothing to repair."""
    left: dict[str, int]
    """Problems that remain in the copy."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_session(parser)
    add_source(parser)
    parser.add_argument(
        "--to",
        metavar="PATH",
        help="a file, or a directory laid out like a home directory (default: `repaired` in unspool's data directory)",
    )
    add_json(parser, "the result as a JSON object")


def run(args: argparse.Namespace) -> int:
    """Write the copy, and print what was changed."""
    target = expanded(args.to) if args.to else None
    is_folder = target is None or args.to.endswith("/") or target.is_dir()
    for catalog, ref in choose_one(args):
        if ref.gone:
            raise UnspoolError(f"{ref.id} exists only in the archive; run `unspool restore` first")
        if ref.stored:
            raise UnspoolError(f"{ref.id}: {ref.path} cannot be read")
        done = repair_session(catalog.library, ref, target, is_folder=is_folder)
        if args.json:
            name = session_name(done.agent, done.session)
            print_json(SessionRepair(session=name, files=done.files, changes=done.changes, left=done.left))
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
    print_note(f"To continue it, copy it to the same path below ~/{agent.folder}, then run: {command}")
