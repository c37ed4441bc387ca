"""The real Claude Code and Codex use the server, as a program and at an address, with models that follow a script."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from unspool.core.errors import UnspoolError
from unspool.library import Library
from unspool.runs.drivers.claude import ClaudeDriverFactory
from unspool.runs.drivers.codex import CodexDriverFactory
from unspool.store import open_store

from ..isolation import run_environment
from ..runs.harness import run
from ..runs.models.claude import ClaudeModel
from ..runs.models.codex import CodexModel, text_of
from ..waiting import finished
from ..web.browser import Server, serving
from .project import own_words, quotations, typical_log

if sys.platform == "win32":
    pytest.skip("the agents are started with POSIX paths", allow_module_level=True)

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": "lamp"}),
    ("read_session", {"session": "latest", "budget": 3000}),
    ("what_was_refused", {}),
    ("context_at", {"session": "latest", "message": 3}),
    ("history_of_file", {"path": "src/parser.py"}),
    ("recent_work", {}),
]
EXPECTED = {
    "search": "The lamp was never lit: the comment was part of the value. All tests pass now.",
    "read_session": "Go on without pushing.",
    "what_was_refused": "never force-push, open a pull request",
    "context_at": "def parse(line): ...",
    "history_of_file": "-split()\n+split('#')[0]",
    "recent_work": "Go on without pushing.",
}
"""What each tool quotes of the earlier session."""


PATIENT = {"MCP_TIMEOUT": "300000", "MCP_TOOL_TIMEOUT": "300000"}
"""How long Claude Code waits for a server, in milliseconds."""


class Workspace:
    """A home with an earlier session in the project of an agent."""

    def __init__(self, folder: Path, home: Path, agent: str) -> None:
        self.folder, self.home, self.project = folder, home, folder / agent
        self.project.mkdir()
        self.log = typical_log(f"earlier, for {agent}", self.project)
        self.log.write(home)
        self.store = folder / f"{agent}.db"

    @property
    def command(self) -> list[str]:
        """The command that the agents start."""
        return [sys.executable, "-m", "unspool", "mcp", "--home", str(self.home), "--store", str(self.store)]

    def address(self, server: Server) -> str:
        return f"{server.base}/mcp?project={quote(str(self.project))}"

    def environment(self, server: Server) -> dict[str, str]:
        own = {"HOME": str(self.home), "UNSPOOL_TOKEN": server.token, "UNSPOOL_DATA": str(self.folder / "agents")}
        return run_environment() | own | PATIENT

    async def run(self, command: list[str], environment: dict[str, str]) -> None:
        """Run an agent to its end, in the project."""
        pipe = subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, cwd=self.project, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        out, err = await finished(process.communicate(), command[0])
        assert process.returncode == 0, (out + err).decode()[-3000:]

    def check(self, answers: list[str]) -> None:
        """The answers to the calls, in order, by both servers: about the earlier session only."""
        assert len(answers) == 2 * len(CALLS)
        for (tool, _), answer in zip([*CALLS, *CALLS], answers, strict=True):
            assert EXPECTED[tool] in quotations(answer), answer
            named = set(re.findall(r"\bsession ([\w-]{36})", own_words(answer)))
            assert named == {self.log.session}, answer
        assert "1 session in this project" in answers[-1]


class Place(NamedTuple):
    """A home, a server on it, and the projects in which the agents work."""

    server: Server
    claude: Workspace
    codex: Workspace


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("agents")
    home = folder / "home"
    home.mkdir()
    claude, codex = (Workspace(folder, home, agent) for agent in ("claude", "codex"))
    with serving(folder, home) as server:
        server.wait_until_ready()
        yield Place(server, claude, codex)


def steps(first: str, second: str) -> str:
    """A script that calls every tool of two servers, whose tools are called after a prefix."""
    calls = [f"call {prefix}{tool} {json.dumps(given)}" for prefix in (first, second) for tool, given in CALLS]
    return " ;; ".join((*calls, "say Done."))


def stored_names(workspace: Workspace, agent: str) -> set[str]:
    with closing(open_store(str(workspace.store), read_only=True)) as store:
        return {row.name for row in store.sessions.select() if row.agent == agent}


def test_claude_code_calls_every_tool(place: Place) -> None:
    server, workspace = place.server, place.claude
    try:
        program = ClaudeDriverFactory().find_program()
    except UnspoolError as error:
        pytest.skip(str(error))
    settings = workspace.folder / "mcp.json"
    headers = {"Authorization": "Bearer ${UNSPOOL_TOKEN}"}
    command = workspace.command
    servers = {
        "memory": {"command": command[0], "args": command[1:]},
        "web": {"type": "http", "url": workspace.address(server), "headers": headers},
    }
    settings.write_text(json.dumps({"mcpServers": servers}))

    async def body() -> ClaudeModel:
        async with ClaudeModel() as model:
            script = f"@do {steps('mcp__memory__', 'mcp__web__')}"
            options = ["--mcp-config", str(settings), "--strict-mcp-config", "--allowedTools", "mcp__memory,mcp__web"]
            await workspace.run(
                [str(program), "-p", script, *options], workspace.environment(server) | model.environment
            )
            return model

    model = run(body())
    workspace.check([text for number in range(len(model.requests)) for text in model.results(number)])
    # It was imported, so that it had to be left out.
    assert {ref.id for ref in Library(workspace.home).refs() if ref.agent == "claude"} == stored_names(
        workspace, "claude"
    )
    assert len(stored_names(workspace, "claude")) == 3


def test_codex_calls_every_tool(place: Place) -> None:
    server, workspace = place.server, place.codex
    try:
        program = CodexDriverFactory().find_program()
    except UnspoolError as error:
        pytest.skip(str(error))

    async def body() -> CodexModel:
        async with CodexModel() as model:
            (workspace.home / ".codex").mkdir(exist_ok=True)
            (workspace.home / ".codex" / "config.toml").write_text(model.config() + codex_servers(workspace, server))
            script = f"@do search search sessions ;; {steps('mcp__memory.', 'mcp__web.')}"
            await workspace.run(
                [str(program), "exec", "--skip-git-repo-check", script],
                workspace.environment(server) | {"OPENAI_API_KEY": "dummy"},
            )
            return model

    model = run(body())
    outputs = [item for item in model.last["input"] if item["type"] == "function_call_output"]
    workspace.check([text_of(item).partition("Output:\n")[2] for item in outputs])
    assert len(stored_names(workspace, "codex")) == 1


def codex_servers(workspace: Workspace, server: Server) -> str:
    command = workspace.command
    variables = '["UNSPOOL_DATA", "TMPDIR", "UNSPOOL_TEST_RUN"]'
    return f"""
[mcp_servers.memory]
command = {json.dumps(command[0])}
args = {json.dumps(command[1:])}
env_vars = {variables}
required = true
startup_timeout_sec = 300
tool_timeout_sec = 300
[mcp_servers.web]
url = {json.dumps(workspace.address(server))}
bearer_token_env_var = "UNSPOOL_TOKEN"
required = true
startup_timeout_sec = 300
tool_timeout_sec = 300
"""
