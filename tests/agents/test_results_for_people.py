"""Results that are more than text: cells of notebooks, and web pages and searches."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from unspool.agents import agent_named
from unspool.core import model as m

from ..core.test_notebook_cells import NOTEBOOK

READ = (
    '<cell id="intro"><cell_type>markdown</cell_type># Tides\nof a week</cell id="intro">\n'
    '<cell id="sum"><language>R</language>print(6 * 7)</cell id="sum">\n\n42\n'
    '<cell id="cell-2">a = "</cell id=\'x\'>"</cell id="cell-2">'
)
SEARCH = """Web search results for query: "tides"

Links: [{"title":"All [about] tides","url":"https://example.org/tides?a=(1)"},{"title":"","url":"https://example.org/"}]

They come twice a day.
Links: [not JSON]
"""


def raw(**given: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(given).encode())


def result(text: str) -> m.ToolResult:
    return m.ToolResult(call_id="c", outcome="ok", content=text)


def test_a_notebook_that_claude_code_reads() -> None:
    """Cells are in tags, and what they printed is between them."""
    claude = agent_named("claude")
    cells = claude.cells_read("Read", raw(file_path="/p/a.ipynb"), result(READ))
    assert [(cell.kind, cell.id, cell.language, cell.outputs) for cell in cells] == [
        ("markdown", "intro", "python", ""),
        ("code", "sum", "R", "42"),
        ("code", "cell-2", "python", ""),
    ]
    assert cells[0].source == "# Tides\nof a week"
    assert claude.cells_read("Read", raw(file_path="/p/a.xml"), result(f"before {READ}")) == []
    assert claude.cells_read("Read", raw(file_path="/p/a.py"), result("print(1)")) == []


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ({"cell_id": "sum"}, "Replace code cell sum"),
        ({"cell_id": "sum", "edit_mode": "insert", "cell_type": "markdown"}, "Insert markdown cell after sum"),
        ({"edit_mode": "delete", "cell_id": "sum", "new_source": None}, "Delete cell sum"),
    ],
)
def test_a_cell_that_claude_code_changes(given: dict[str, Any], label: str) -> None:
    """The call has no more of the notebook than this cell."""
    call = raw(**{"notebook_path": "/p/a.ipynb", "new_source": "x = 1", **given})
    (cell,) = agent_named("claude").cells_written("NotebookEdit", call)
    assert cell.label == label
    assert cell.source == ("" if cell.mode == "delete" else "x = 1")


@pytest.mark.parametrize(("agent", "tool"), [("claude", "Write"), ("gemini", "write_file")])
def test_a_notebook_that_is_written(agent: str, tool: str) -> None:
    """As a file; a file of another kind is none, whatever it holds."""
    text = json.dumps(NOTEBOOK)
    ids = [
        [cell.id for cell in agent_named(agent).cells_written(tool, raw(file_path=path, content=text))]
        for path in ("/p/a.ipynb", "/p/a.json")
    ]
    assert ids == [["intro", "sum"], []]


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_a_notebook_that_a_command_prints(agent: str) -> None:
    """All of it; a part is text."""
    text = json.dumps(NOTEBOOK)
    read = agent_named(agent).cells_read
    assert len(read("any", raw(command="cat a.ipynb"), result(text))) == 2
    assert read("any", raw(command="head a.ipynb"), result(text[:100])) == []
    assert read("any", raw(command="cat a.json"), result(text)) == []


def test_links_of_a_web_search() -> None:
    """They are written as JSON, and are links for people."""
    text = agent_named("claude").markdown_of("WebSearch", result(SEARCH)) or ""
    assert (
        "- [All about tides](<https://example.org/tides?a=(1)>)\n- [https://example.org/](<https://example.org/>)"
        in text
    )
    assert "Links: [not JSON]" in text
    assert agent_named("claude").markdown_of("Bash", result(SEARCH)) is None
    assert agent_named("gemini").markdown_of("google_web_search", result("**x**")) == "**x**"
