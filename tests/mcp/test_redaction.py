"""No answer has a secret in it, unless that was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool.mcp.request import ToolRequest
from unspool.mcp.scope import ProjectScope
from unspool.mcp.tool_table import call_tool
from unspool.search.query import parse
from unspool.store import Store
from unspool.testing import call

from ..redact.planted import planted
from .project import Asked, ProjectLog, store_of

FOLDER = "/home/dev/demo"
PLANTED = [one for one in planted(1, seed=5) if "\n" not in one.secret and "\x1b" not in one.text]
TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": "printed OR echo OR carefully"}),
    ("read_session", {"session": "latest"}),
    ("what_was_refused", {}),
    ("context_at", {"session": "latest"}),
    ("history_of_file", {"path": "settings.ini"}),
    ("recent_work", {}),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A session with a secret of each kind in prompts, inputs, outputs, rejected calls and reasons."""
    folder = tmp_path_factory.mktemp("leaky")
    log = ProjectLog("leaky", FOLDER)
    log.user(f"{PLANTED[0].text} is the first line, and so it is the title")
    for number, one in enumerate(PLANTED):
        log.user(f"carefully: {one.text}")
        log.model(call(f"edit-{number}", "Write", file_path=f"{FOLDER}/settings.ini", content=one.text))
        log.result(f"edit-{number}", f"printed\n{one.text}\n")
        log.model(call(f"call-{number}", command=f"echo '{one.text}'"))
        log.reject(f"call-{number}", f"not with {one.text}")
    log.model(f"The last answer: {PLANTED[1].text}")
    log.write(folder / "home")
    made = store_of(folder / "store.db", folder / "home")
    yield made
    made.close()


def leaked(text: str) -> list[str]:
    return [one.kind for one in PLANTED if one.secret in text]


@pytest.mark.parametrize("budget", [500, 20_000])
@pytest.mark.parametrize(("tool", "arguments"), TOOLS, ids=[tool for tool, _ in TOOLS])
def test_answers_have_no_secrets(store: Store, tool: str, arguments: dict[str, Any], budget: int) -> None:
    """Neither large ones, nor small ones in which texts are cut."""
    text = "".join(Asked(store, FOLDER).pages(tool, budget=budget, **arguments))
    assert leaked(text) == []
    assert "‹" in text


@pytest.mark.parametrize(("tool", "arguments"), TOOLS, ids=[tool for tool, _ in TOOLS])
def test_secrets_are_there_without_redaction(store: Store, tool: str, arguments: dict[str, Any]) -> None:
    """The test above could not fail otherwise."""
    request = ToolRequest(store, ProjectScope(FOLDER))
    assert leaked(call_tool(request, tool, arguments | {"budget": 20_000}))


def test_secrets_cannot_be_guessed_with_queries(store: Store) -> None:
    """A word that occurs in nothing but a secret finds nothing, and neither does its beginning."""
    tokens = [one.secret for one in PLANTED if one.secret.isalnum() and len(one.secret) > 16]
    assert tokens
    for secret in tokens:
        assert store.search.run(parse(secret)).found
        for query in (secret, f"{secret[:12]}*"):
            assert "No matches." in Asked(store, FOLDER)("search", query=query)


def test_the_same_secret_has_the_same_placeholder(store: Store, tmp_path: Path) -> None:
    asked = Asked(store, FOLDER)
    first, second = (set(_placeholders(asked("what_was_refused", budget=20_000))) for _ in range(2))
    assert first == second
    assert len(first) > 10


def _placeholders(text: str) -> list[str]:
    return [part.partition("›")[0] for part in text.split("‹")[1:]]


def test_a_title_that_was_cut_ends_before_the_last_word(tmp_path: Path) -> None:
    """Half of a secret is not recognised as one."""
    log = ProjectLog("cut", FOLDER)
    log.user("word " * 36 + "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8" + " and more words after it")
    log.write(tmp_path / "home")
    store = store_of(tmp_path / "store.db", tmp_path / "home")
    try:
        assert "ghp_" not in Asked(store, FOLDER)("recent_work")
    finally:
        store.close()
