"""`unspool clears`: where context was cleared, in all sessions."""

from __future__ import annotations

import argparse

from . import ledger
from .ledger import configure

__all__ = ["EXAMPLES", "configure", "run"]

EXAMPLES = """examples:
  unspool clears
  unspool clears --json"""


def run(args: argparse.Namespace) -> int:
    """Print the ledger."""
    return ledger.run("clear", args)
