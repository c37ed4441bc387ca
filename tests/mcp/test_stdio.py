"""`unspool mcp` as an agent starts it, with the client of the SDK."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from unspool.mcp.tool_table import TOOLS

from ..runs.harness import run
from ..waiting import PATIENCE
from .project import quotations, store_of, typical_log
from .sdk import skip_without_sdk

if TYPE_CHECKING:
    from mcp.client.stdio import StdioServerParameters
    from mcp.types import CallToolResult

skip_without_sdk()
SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
MOST_CHARACTERS = 6_000
"""Of the list of tools: every model that is connected reads it with every request."""
NAMES = ["search", "read_session", "what_was_refused", "context_at", "history_of_file", "recent_work"]


class Place:
    """A home with sessions of two projects, and the program started in one of them."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project, self.store = folder / "home", folder / "project", folder / "store.db"
        self.errors = folder / "errors.txt"
        self.data = folder / "data"
        self.project.mkdir()
        log = typical_log("earlier", self.project)
        log.user(f"The token is {SECRET}, use it carefully.")
        log.model("I will.")
        log.write(self.home)
        typical_log("elsewhere", "/home/dev/other").write(self.home)

    def parameters(self, *options: str) -> StdioServerParameters:
        from mcp.client.stdio import StdioServerParameters

        arguments = ["-m", "unspool", "mcp", "--home", str(self.home), "--store", str(self.store), *options]
        environment = {"UNSPOOL_DATA": str(self.data), "UNSPOOL_TEST_RUN": os.environ.get("UNSPOOL_TEST_RUN", "")}
        return StdioServerParameters(command=sys.executable, args=arguments, env=environment, cwd=self.project)


@pytest.fixture(autouse=True)
def _a_patient_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gives a server two seconds to end, then kills it, and does not wait long for that either."""
    from mcp.client import stdio

    for name in ("PROCESS_TERMINATION_TIMEOUT", "FORCE_KILL_TIMEOUT", "_KILL_REAP_TIMEOUT"):
        monkeypatch.setattr(stdio, name, PATIENCE)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def text_of(result: CallToolResult) -> str:
    from mcp.types import TextContent

    (content,) = result.content
    assert isinstance(content, TextContent)
    assert result.structured_content is None
    return content.text


def digests(folder: Path) -> dict[str, str]:
    """The content of every file in a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_list_of_tools_is_short() -> None:
    """As it is sent, with everything around it."""
    from unspool.mcp.server import listed_tools

    tools = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in listed_tools()]
    answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}})
    assert len(answer) < MOST_CHARACTERS
    assert [tool["name"] for tool in tools] == NAMES == list(TOOLS)
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools)


async def converse(place: Place) -> dict[str, CallToolResult]:
    """Call every tool, and make mistakes."""
    from mcp.client.client import Client
    from mcp.client.stdio import stdio_client

    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "search": ("search", {"query": "carefully"}),
        "read_session": ("read_session", {"session": "latest", "first": -2}),
        "what_was_refused": ("what_was_refused", {}),
        "context_at": ("context_at", {"session": "latest"}),
        "history_of_file": ("history_of_file", {"path": "src/parser.py"}),
        "recent_work": ("recent_work", {"budget": 600}),
        "no budget": ("recent_work", {"budget": 0}),
        "too much": ("recent_work", {"budget": 10**9}),
        "no session": ("read_session", {"session": f"x{SECRET}"}),
        "bad query": ("search", {"query": f"({SECRET} OR"}),
        "no tool": (f"forget {SECRET}", {}),
    }
    found = {}
    with place.errors.open("w") as errors:
        async with Client(stdio_client(place.parameters(), errlog=errors)) as client:
            listed = await client.list_tools()
            assert len(listed.model_dump_json(by_alias=True, exclude_none=True)) < MOST_CHARACTERS
            assert [tool.name for tool in listed.tools] == NAMES
            for name, (tool, arguments) in calls.items():
                found[name] = await client.call_tool(tool, arguments)
    return found


def test_a_conversation(place: Place) -> None:
    """All tools answer about the project, without secrets; mistakes are errors that say what is wrong."""
    before = digests(place.home)
    results = run(converse(place))
    texts = {name: text_of(result) for name, result in results.items()}
    assert [name for name, result in results.items() if result.is_error] == list(texts)[len(NAMES) :]
    assert all(quotations(texts[name]) for name in NAMES)
    assert "1 session in this project" in texts["recent_work"]
    assert "‹github-token:" in texts["search"]
    for text in (*texts.values(), place.errors.read_text()):
        assert SECRET not in text
        assert "elsewhere" not in text
    assert texts["no budget"] == "budget is 0; it must be between 500 and 20,000 tokens"
    assert texts["too much"].startswith("budget is 1,000,000,000")
    assert texts["no session"].startswith("no such session here")
    assert "at character" in texts["bad query"]
    assert texts["no tool"].startswith("there is no such tool")
    assert place.errors.read_text() == ""
    assert digests(place.home) == before


def test_a_client_of_an_earlier_protocol(place: Place) -> None:
    """With the options that lift the limits. Without imports, nothing is written at all."""
    from mcp.client.client import Client
    from mcp.client.stdio import stdio_client

    store_of(place.store, place.home).close()
    before = digests(place.home) | {"store": hashlib.sha256(place.store.read_bytes()).hexdigest()}

    async def body() -> str:
        options = ("--no-sync", "--all-projects", "--with-secrets")
        with place.errors.open("w") as errors:
            async with Client(stdio_client(place.parameters(*options), errlog=errors), mode="legacy") as client:
                return text_of(await client.call_tool("search", {"query": "elsewhere OR carefully"}))

    text = run(body())
    assert SECRET in text
    assert "lighthouse tests fail in elsewhere" in text
    assert digests(place.home) | {"store": hashlib.sha256(place.store.read_bytes()).hexdigest()} == before
    assert place.errors.read_text() == ""


def test_a_line_that_is_not_a_message(place: Place) -> None:
    """Is not repeated anywhere; the end of the input is the end of the program."""
    command = [sys.executable, *place.parameters().args]
    environment = os.environ | {"UNSPOOL_DATA": str(place.data)}
    done = subprocess.run(
        command,
        input=f"{SECRET}\n\n{{\n",
        capture_output=True,
        text=True,
        cwd=place.project,
        env=environment,
        check=False,
    )
    assert done.returncode == 0
    assert SECRET not in done.stdout + done.stderr
