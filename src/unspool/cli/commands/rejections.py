"""`unspool rejections`: what was refused, why, and by whom, in all sessions."""

from __future__ import annotations

import argparse

from .._shared import events
from .._shared.events import configure

__all__ = ["EXAMPLES", "configure", "run"]

EXAMPLES = """examples:
  unspool rejections --since 30d --tool bash
  unspool rejections --format markdown > refused.md"""


def run(args: argparse.Namespace) -> int:
    """Print the ledger."""
    return events.run("rejection", args)
