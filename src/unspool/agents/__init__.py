"""The agents whose sessions can be read: the only list of them in the project."""

from __future__ import annotations

from ._base import Agent, AgentInfo, Home, MakeDraft, Peek, SessionRef, Steps, finish
from ._mending import unanswered
from .claude import Claude
from .codex import Codex
from .gemini import Gemini

AGENTS: dict[str, Agent] = {agent.info.name: agent for agent in (Claude(), Codex(), Gemini())}

__all__ = ["AGENTS", "Agent", "AgentInfo", "Home", "MakeDraft", "Peek", "SessionRef", "Steps", "finish", "unanswered"]
