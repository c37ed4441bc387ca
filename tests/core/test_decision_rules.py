"""Rules that decisions suggest: from enough decisions, never against one, and never too wide."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from unspool.agents import agent_named
from unspool.core import model as m
from unspool.core.decision_rules import MIN_ALLOWED, MIN_DENIED, RuleWriter, command_prefix, suggest_rules
from unspool.core.decisions import RecordedDecision


def decision(command: str | None, verdict: Any = "allow", agent: str = "claude", **facts: Any) -> RecordedDecision:
    action = m.Action(msgspec.Raw(b"{}"), command=command)
    given: dict[str, Any] = {
        "at": datetime(2026, 5, 1, tzinfo=UTC), "session": "s", "request": "q", "call_ids": ["c"], "by": "user",
        "tool": "Bash", "kind": "command", "action": action,
    }  # fmt: skip
    return RecordedDecision(agent=agent, verdict=verdict, **(given | facts))


def writer(name: str) -> RuleWriter:
    agent = agent_named(name)
    return RuleWriter(agent.allow_command, agent.allow_tool, agent.info.instructions)


def suggestions(decisions: list[RecordedDecision]) -> list[Any]:
    return suggest_rules(decisions, writer)


@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        ("pytest -q tests", ("pytest",)),
        ("git status --short", ("git", "status")),
        ("./gradlew build", ("./gradlew",)),
        ("npm run build -- -x", ("npm", "run", "build")),
        ("docker run x", None),
        ("uv run pytest", ("uv", "run", "pytest")),
        ("uv run python x.py", None),
        ("cargo run", None),
        ("python -m pytest -x", ("python", "-m", "pytest")),
        ("make", None),
        ("git -C /x status", None),
        ("python x.py", None),
        ("pytest; rm -rf x", None),
        ("pytest && true", None),
        ("pytest $(rm x)", None),
        ("pytest > out", None),
        ("X=1 pytest", None),
        ("sudo pytest", None),
        ("rm x", None),
        ("pytest 'a", None),
        ("", None),
        ("pytest\nrm x", None),
        ("/tmp/evil", None),
        ("a" * 5000, None),
    ],
)
def test_a_rule_names_no_more_than_one_program(command: str, prefix: tuple[str, ...] | None) -> None:
    assert command_prefix(command) == prefix


@pytest.mark.parametrize(
    "program",
    [
        "python3.12", "python3.13t", "Python.exe", "pythonw", "./python3", "pypy3.10", "ipython3", "node20", "nodejs",
        "perl5.36", "ruby3.2", "php8.2", "lua5.4", "tclsh8.6", "Rscript", "tsx", "ts-node", "bunx", "uvx", "npx",
        "pwsh", "bash-5.2", "gawk", "env", "sudo", "xargs", "time", "timeout", "nice", "stdbuf", "parallel",
        "uv run python3", "uv run node20", "npm run tsx", "poetry run sudo", "yarn node", "pnpm tsx", "bun node20",
        "python3.12 -m pdb", "python -m cProfile", "python -m coverage run", "python -m pip", "uv run coverage run",
        "uv tool run", "docker compose exec", "pipx run", "npm create", "pip3", "docker-compose run",
    ],
)  # fmt: skip
def test_no_rule_is_suggested_for_programs_that_run_anything(program: str) -> None:
    assert command_prefix(f"{program} x.py") is None


@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        ("python3.12 -m pytest -x", ("python3.12", "-m", "pytest")),
        ("python3 -m pip install x", ("python3", "-m", "pip", "install")),
        ("pip3.12 install x", ("pip3.12", "install")),
        ("npm run test:unit", ("npm", "run", "test:unit")),
        ("uv run git status", ("uv", "run", "git", "status")),
        ("yarn start", ("yarn", "start")),
        ("pnpm install", ("pnpm", "install")),
        ("./install.sh", ("./install.sh",)),
        ("base64 x", ("base64",)),
        ("7z l x.zip", ("7z",)),
    ],
)
def test_a_version_in_a_name_changes_nothing_else(command: str, prefix: tuple[str, ...]) -> None:
    assert command_prefix(command) == prefix


def test_what_was_always_allowed_is_suggested_with_the_rule_of_its_agent() -> None:
    decisions = [decision(f"pytest tests/{n}", agent=name) for n in range(MIN_ALLOWED) for name in ("claude", "codex")]
    found = {one.agent: one for one in suggestions(decisions)}
    assert found["claude"].question == f"You allowed `pytest` {MIN_ALLOWED} times and never denied it: allow it always?"
    assert '"Bash(pytest:*)"' in found["claude"].rule.text
    assert found["codex"].rule.text == 'prefix_rule(pattern=["pytest"], decision="allow")'
    assert [one.what for one in found["codex"].evidence] == [f"pytest tests/{n}" for n in range(MIN_ALLOWED)]


@pytest.mark.parametrize(
    "other",
    [
        decision("pytest --looponfail", "deny"),
        decision("pytest", "deny_stop", reason="no"),
        decision("pytest", input=msgspec.Raw(b'{"command":"pytest -x"}')),
    ],
)
def test_one_denial_or_changed_input_is_enough_against_a_rule(other: RecordedDecision) -> None:
    decisions = [decision("pytest") for _ in range(MIN_ALLOWED + 3)]
    assert suggestions(decisions) != []
    assert suggestions([*decisions, other]) == []


def test_too_few_decisions_suggest_nothing() -> None:
    assert suggestions([decision("pytest") for _ in range(MIN_ALLOWED - 1)]) == []
    assert suggestions([decision("x", "deny", reason="no") for _ in range(MIN_DENIED - 1)]) == []


def test_a_reason_given_again_and_again_is_suggested_as_an_instruction() -> None:
    reasons = ("Use uv, not pip.", "use uv,  not pip", "Use uv, not pip!")
    (found,) = suggestions([decision("pip install x", "deny", reason=reason) for reason in reasons])
    assert found.question == "You denied `pip install` with “Use uv, not pip!” 3 times: add it to CLAUDE.md?"
    assert found.rule.text == "- Use uv, not pip!"


def test_only_decisions_of_people_count() -> None:
    timeouts = [decision("x", "deny", by="timeout", reason="Nobody answered") for _ in range(5)]
    interruptions = [decision(None, "interrupt", request=None) for _ in range(5)]
    assert suggestions(timeouts + interruptions) == []


def test_tools_without_a_command_are_allowed_by_their_name() -> None:
    calls = [decision(None, kind="tool", tool="mcp__docs__search") for _ in range(MIN_ALLOWED)]
    (found,) = suggestions(calls)
    assert '"mcp__docs__search"' in found.rule.text
    (other,) = suggestions([decision(None, kind="tool", tool="docs", agent="codex") for _ in range(MIN_ALLOWED)])
    assert other.rule is None
