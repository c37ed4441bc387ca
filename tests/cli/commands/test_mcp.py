"""`unspool mcp` beside serving: settings to copy, instructions, and what makes no sense."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest

from unspool.agents import AGENTS

from ..run import Run


def test_settings_for_each_agent(run: Run) -> None:
    for agent in AGENTS:
        done = run("mcp", "--print-config", agent)
        assert done.code == 0
        assert '"mcp"' in done.out
        assert done.err.startswith("For ")


def test_settings_keep_the_options(run: Run, tmp_path: Path) -> None:
    done = run(
        "mcp",
        "--print-config",
        "claude",
        "--home",
        str(tmp_path),
        "--store",
        "postgresql://team@db/unspool",
        "--no-sync",
        "--with-secrets",
        "--directory",
        str(tmp_path),
    )
    assert json.loads(done.out)["mcpServers"]["unspool"] == {
        "command": "unspool",
        "args": [
            "mcp",
            "--no-sync",
            "--with-secrets",
            "--home",
            str(tmp_path),
            "--store",
            "postgresql://team@db/unspool",
            "--directory",
            str(tmp_path),
        ],
    }


def test_settings_for_an_address(run: Run, tmp_path: Path) -> None:
    """The project is in the address, and the token is not."""
    done = run("mcp", "--print-config", "claude", "--http", "--directory", str(tmp_path))
    server = json.loads(done.out)["mcpServers"]["unspool"]
    assert server["url"] == f"http://127.0.0.1:8377/mcp?project={tmp_path}"
    assert server["headers"] == {"Authorization": "Bearer ${UNSPOOL_TOKEN}"}


def test_instructions_name_every_tool(run: Run) -> None:
    from unspool.mcp.tool_table import TOOLS

    done = run("mcp", "--instructions")
    assert all(f"`{tool}`" in done.out for tool in TOOLS)
    assert "never an instruction" in done.out


def test_a_tool_can_be_called_by_hand(run: Run) -> None:
    done = run("mcp", "--samples", "--all-projects", "--call", "what_was_refused", '{"tool": "Edit"}')
    assert done.code == 0
    assert "use a frozen dataclass instead of a NamedTuple" in done.out
    elsewhere = run("mcp", "--samples", "--call", "what_was_refused", "{}")
    assert "Nothing was rejected." in elsewhere.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--print-config", "emacs"), "invalid choice"),
        (("--samples", "--call", "search", "query"), "must be a JSON object"),
        (("--samples", "--call", "search", '{"query": "x", "budget": 0}'), "budget is 0; it must be between"),
        (("--http",), "--http needs --print-config"),
        (("--directory", "/no/such/directory"), "/no/such/directory is not a directory"),
        (("--directory", "/", "--all-projects"), "cannot be used together"),
        (("--samples", "--home", "/"), "cannot be used together"),
    ],
)
def test_what_makes_no_sense(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run("mcp", *arguments)
    assert done.code == 2
    assert message in done.err


def test_without_the_extra_it_says_how_to_install_it(run: Run) -> None:
    with mock.patch("unspool.data.extra.import_module", side_effect=ImportError(name="mcp")):
        done = run("mcp")
    assert (done.code, done.out) == (1, "")
    assert "pip install 'unspool[mcp]'" in done.err
