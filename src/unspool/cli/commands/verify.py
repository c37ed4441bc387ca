"""`unspool verify`: check that the log of decisions is complete and unchanged."""

from __future__ import annotations

import argparse

from ...core.errors import UsageError
from ...core.plural import counted
from ...render.sanitize import harmless
from ...store.decision_chain import Head
from ...store.decision_verify import Verification, verify_decisions
from ...store.locate import data_folder
from .._shared.output import print_json

EXAMPLES = """examples:
  unspool verify
  unspool verify --json | jq .faults
  unspool verify --expect 41:9f86d08…    is the entry that you noted elsewhere still there?

exit codes: 0 nothing was changed, 1 something was, 2 invalid usage"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--expect",
        metavar="ENTRY:HASH",
        help="the newest entry as an earlier run of this command printed it",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Verify the log and print the result."""
    found = verify_decisions(data_folder(), _head(args.expect) if args.expect is not None else None)
    if args.json:
        print_json(found)
    else:
        print("\n".join(map(harmless, _lines(found))))
    return 1 if found.faults else 0


def _head(text: str) -> Head:
    number, _, digest = text.partition(":")
    try:
        return Head(int(number), digest)
    except ValueError:
        raise UsageError(f"--expect needs ENTRY:HASH as `unspool verify` printed it, not {text!r}") from None


def _lines(found: Verification) -> list[str]:
    lines = [f"✗ {fault.text}" for fault in found.faults]
    if found.head is None and not found.faults and not found.not_covered:
        return ["No decisions have been recorded on this computer"]
    if found.faults:
        lines.append(f"The log of decisions was changed: {counted(len(found.faults), 'fault')}, the first one on top")
    elif found.decisions or not found.not_covered:
        lines.append(f"✓ {counted(found.decisions, 'decision')}: complete and unchanged")
    if found.not_covered:
        lines.append(f"Not covered: {counted(found.not_covered, 'decision')} from before the log was protected")
    if found.unprotected:
        lines.append(f"Not protected against removal yet: {counted(found.unprotected, 'entry')} at the end")
    if found.head is not None:
        lines.append(f"Newest entry: {found.head}")
    return lines
