"""Every piece of evidence in a record has a rule that explains it."""

from __future__ import annotations

import pytest

from unspool.agents import AGENTS
from unspool.core.events import BY_NAME
from unspool.core.explain import Explainer
from unspool.core.rules import COMMON, Rule, find_rule

from ..recordings import recordings


def test_the_longest_beginning_is_found() -> None:
    """Evidence may end with details, such as an exit code."""
    rules = {("a", "exit"): Rule("short", ""), ("a", "exit code"): Rule("long", "")}
    assert find_rule("a", "exit code 130", rules) == rules["a", "exit code"]
    assert find_rule("a", "exit", rules) == rules["a", "exit"]
    assert find_rule("b", "exit", rules) is None


def test_rules_are_about_events_or_messages() -> None:
    """A misspelled kind would never be found."""
    names = {*BY_NAME, "author", "branch", "context", "link"}
    tables = (COMMON, *(agent.rules for agent in AGENTS.values()))
    assert {about for table in tables for about, _ in table} <= names


def test_rules_say_what_would_be_otherwise() -> None:
    """In sentences."""
    for table in (COMMON, *(agent.rules for agent in AGENTS.values())):
        for rule in table.values():
            assert rule.text.endswith(".")
            assert rule.otherwise.endswith(".")


@pytest.mark.slow
def test_evidence_in_the_recordings_has_rules() -> None:
    """All events, and the author, the branch and the context of every message."""
    missing = set()
    for recording in recordings():
        for session in recording.sessions():
            explainer = Explainer(session, session.messages.__getitem__, AGENTS[session.agent].rules)
            for index in range(len(session)):
                for fact in explainer.explain(index).facts:
                    if fact.rule is None:
                        missing.add((session.agent, fact.about, fact.evidence or fact.says))
    assert missing == set()
