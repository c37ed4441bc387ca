"""The rules that the decisions made on this computer suggest."""

from __future__ import annotations

from ..agents import agent_named
from ..core.decision_rules import RuleSuggestion, RuleWriter, suggest_rules
from .decision_log import all_decisions


def suggested_rules() -> list[RuleSuggestion]:
    """The suggestions, each with the text for its agent."""
    return suggest_rules(all_decisions(), _writer_of)


def _writer_of(name: str) -> RuleWriter:
    agent = agent_named(name)
    return RuleWriter(agent.allow_command, agent.allow_tool, agent.info.instructions)
