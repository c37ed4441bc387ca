"""The coding agents whose sessions can be read. `registry` has the only list of them."""

from __future__ import annotations

from ._repair import RepairStrategy, unanswered
from .base import Agent, AgentInfo, BuilderFactory, Colour, Peek, SessionRef, SessionSource, Steps, finish
from .registry import AGENTS, AgentRegistry, agent_named

__all__ = [
    "AGENTS",
    "Agent",
    "AgentInfo",
    "AgentRegistry",
    "BuilderFactory",
    "Colour",
    "Peek",
    "RepairStrategy",
    "SessionRef",
    "SessionSource",
    "Steps",
    "agent_named",
    "finish",
    "unanswered",
]
