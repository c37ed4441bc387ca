"""The agents whose sessions can be read: the only list of them in the project."""

from __future__ import annotations

from ._repair import unanswered
from .base import Agent, AgentInfo, BuilderFactory, Peek, SessionRef, SessionSource, Steps, finish
from .claude import Claude
from .codex import Codex
from .gemini import Gemini

AGENTS: dict[str, Agent] = {agent.info.name: agent for agent in (Claude(), Codex(), Gemini())}

__all__ = [
    "AGENTS",
    "Agent",
    "AgentInfo",
    "BuilderFactory",
    "Peek",
    "SessionRef",
    "SessionSource",
    "Steps",
    "finish",
    "unanswered",
]
