"""`unspool stop`: end a running agent; its session can be resumed."""

from __future__ import annotations

import argparse

from . import interrupt

EXAMPLES = """examples:
  unspool stop
  unspool stop 3f2a"""

configure = interrupt.configure


def run(args: argparse.Namespace) -> int:
    """End it."""
    return interrupt.do(args, "stop")
