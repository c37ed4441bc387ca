"""`unspool interruptions`: what was stopped, and by whom, in all sessions."""

from __future__ import annotations

import argparse

from .._shared import events
from .._shared.events import configure

__all__ = ["EXAMPLES", "configure", "run"]

EXAMPLES = """examples:
  unspool interruptions --project tidepool
  unspool interruptions --json"""


def run(args: argparse.Namespace) -> int:
    """Print the ledger."""
    return events.run("interruption", args)
