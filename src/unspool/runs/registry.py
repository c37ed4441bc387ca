"""The agents that can be run: those with a driver in the table of agents."""

from __future__ import annotations

import logging
from importlib import import_module

from ..agents import AGENTS
from .protocol import DriverFactory

_log = logging.getLogger(__name__)


def load_drivers() -> dict[str, DriverFactory]:
    """Import the drivers of all agents that have one. A driver that cannot be imported is logged and left out."""
    found: dict[str, DriverFactory] = {}
    for name, agent in AGENTS.items():
        if agent.info.driver is None:
            continue
        try:
            module, _, factory = agent.info.driver.partition(":")
            found[name] = getattr(import_module(module), factory)()
        except Exception as error:
            # Drivers from other packages may fail in any way; that must not affect the other agents.
            _log.warning("The driver of agent %r was not loaded: %s: %s", name, type(error).__name__, error)
    return found


DRIVERS: dict[str, DriverFactory] = load_drivers()
