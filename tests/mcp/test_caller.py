"""Which session a call comes from, by what the agents say."""

from __future__ import annotations

import json
import os
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from unspool.agents import AGENTS, McpConnection
from unspool.mcp.caller import find_callers
from unspool.mcp.scope import Caller
from unspool.runs.processes import ancestry

CODEX = {"x-codex-turn-metadata": {"session_id": "s"}, "threadId": "thread", "progressToken": 1}


def registered(root: Path, pid: int, session: str) -> Path:
    """Claude Code's register of running programs."""
    (root / "sessions").mkdir(parents=True, exist_ok=True)
    (root / "sessions" / f"{pid}.json").write_text(json.dumps({"pid": pid, "sessionId": session, "status": "busy"}))
    return root


@pytest.mark.parametrize("meta", [{}, {"threadId": "other"}, {"threadId": 3} | {"x-codex-turn-metadata": 1}])
def test_nothing_is_known_of_other_clients(meta: dict[str, Any]) -> None:
    assert find_callers(meta, {}, (), []) == []


def test_codex_says_which_thread_it_is() -> None:
    assert find_callers(CODEX, {}, (), []) == [Caller("codex", "thread")]


def test_claude_code_says_it_in_the_environment() -> None:
    environment = {"CLAUDE_CODE_SESSION_ID": "from the start"}
    assert find_callers({}, environment, (), []) == [Caller("claude", "from the start")]


def test_the_register_knows_the_session_after_a_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment has the session that was there when the server was started."""
    monkeypatch.setattr("unspool.agents.claude.discovery._is_agent", lambda _: True)
    root = registered(tmp_path / ".claude", 4711, "after the clear")
    environment = {"CLAUDE_CODE_SESSION_ID": "before"}
    homes = [("claude", root)]
    assert find_callers({}, environment, (9, 4711), homes) == [Caller("claude", "after the clear")]
    assert find_callers({}, environment, (9,), homes) == [Caller("claude", "before")]


def test_another_program_with_the_number_of_an_agent_is_none(tmp_path: Path) -> None:
    """Numbers of processes are used again."""
    root = registered(tmp_path / ".claude", os.getpid(), "old")
    assert find_callers({}, {}, (os.getpid(),), [("claude", root)]) == []


def test_an_agent_that_another_one_started_leaves_both_out() -> None:
    environment = {"CLAUDE_CODE_SESSION_ID": "outer"}
    assert find_callers(CODEX, environment, (), []) == [Caller("claude", "outer"), Caller("codex", "thread")]


def test_gemini_cli_says_only_that_it_is_itself() -> None:
    since = datetime(2026, 11, 17, tzinfo=UTC)
    assert find_callers({}, {"GEMINI_CLI": "1"}, (), [], since) == [Caller("gemini", since=since)]
    assert find_callers({}, {}, (), [], since) == []


def test_ancestry_goes_up_to_the_first_process() -> None:
    found = ancestry(os.getpid())
    # In a container, the first process may have started the tests.
    nearest = tuple(process for process in (os.getpid(), os.getppid()) if process != 1)
    assert found[: len(nearest)] == nearest
    assert 1 not in found
    assert ancestry(0) == ()


# --- settings ---


@pytest.mark.parametrize("agent", AGENTS)
def test_settings_connect_an_agent_to_a_command(agent: str) -> None:
    settings = AGENTS[agent].mcp_settings(McpConnection(name="unspool", command=("unspool", "mcp", "--home", 'a "b"')))
    assert settings is not None
    assert parsed(settings.text)["unspool"] == {"command": "unspool", "args": ["mcp", "--home", 'a "b"']}


@pytest.mark.parametrize("agent", AGENTS)
def test_settings_with_unusual_characters(agent: str) -> None:
    """A path may contain any: outside of the Basic Multilingual Plane, and control characters."""
    command = ("/home/\U0001f680/ü/unspool", "mcp", "--home", "\U0001f9f5 \x7f \x01 \t \\ '")
    settings = AGENTS[agent].mcp_settings(McpConnection(name="unspool", command=command))
    assert settings is not None
    assert parsed(settings.text)["unspool"] == {"command": command[0], "args": list(command[1:])}


@pytest.mark.parametrize("agent", AGENTS)
def test_settings_for_an_address_have_no_token_in_them(agent: str) -> None:
    """They may be committed."""
    connection = McpConnection(name="unspool", url="http://127.0.0.1:8377/mcp", token_variable="UNSPOOL_TOKEN")
    settings = AGENTS[agent].mcp_settings(connection)
    assert settings is not None
    assert "http://127.0.0.1:8377/mcp" in json.dumps(parsed(settings.text))
    assert "UNSPOOL_TOKEN" in settings.text


def parsed(text: str) -> dict[str, Any]:
    """The servers in JSON or TOML."""
    found = json.loads(text)["mcpServers"] if text.startswith("{") else tomllib.loads(text)["mcp_servers"]
    assert isinstance(found, dict)
    return found
