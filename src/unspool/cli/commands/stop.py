"""`unspool stop`: stop a running agent; its session can be resumed."""

from __future__ import annotations

import argparse

from . import interrupt

EXAMPLES = """examples:
  unspool stop
  unspool stop 3f2a"""

configure = interrupt.configure


def run(args: argparse.Namespace) -> int:
    """Stop the agent."""
    return interrupt.act_on_run(args, "stop")
