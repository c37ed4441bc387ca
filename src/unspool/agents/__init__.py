"""The coding agents whose sessions can be read. `registry` has the only list of them."""

from __future__ import annotations

from ._repair import RepairStrategy, unanswered
from .base import (
    Agent,
    AgentInfo,
    BuilderFactory,
    Colour,
    McpConnection,
    Peek,
    SessionRef,
    SessionSource,
    Steps,
    ToolCaller,
    finish,
)
from .registry import AGENTS, AgentRegistry, agent_named

__all__ = [
    "AGENTS",
    "Agent",
    "AgentInfo",
    "AgentRegistry",
    "BuilderFactory",
    "Colour",
    "McpConnection",
    "Peek",
    "RepairStrategy",
    "SessionRef",
    "SessionSource",
    "Steps",
    "ToolCaller",
    "agent_named",
    "finish",
    "unanswered",
]
