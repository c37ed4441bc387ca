"""`unspool compactions`: where context was compacted, in all sessions."""

from __future__ import annotations

import argparse

from .._shared import events
from .._shared.events import configure

__all__ = ["EXAMPLES", "configure", "run"]

EXAMPLES = """examples:
  unspool compactions --since 7d
  unspool compactions --agent codex --json"""


def run(args: argparse.Namespace) -> int:
    """Print the ledger."""
    return events.run("compaction", args)
