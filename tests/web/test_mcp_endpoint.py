"""The MCP server at the address of the web server: with the client of the SDK, and only with the token."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock
from urllib.parse import quote

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from unspool.core.errors import MissingExtraError, UsageError
from unspool.ingest.sync import Syncer
from unspool.io.pip import install_command
from unspool.mcp.scope import ProjectScope
from unspool.store import open_store
from unspool.web.app import create_app
from unspool.web.settings import Settings

from ..mcp.project import quotations, typical_log
from ..mcp.sdk import skip_without_sdk
from ..runs.harness import run
from .conftest import PORT, TOKEN

if TYPE_CHECKING:
    from mcp.client.client import Client
    from mcp.types import CallToolResult

skip_without_sdk()
BASE = f"http://127.0.0.1:{PORT}"
BEARER = {"authorization": f"Bearer {TOKEN}"}
ACCEPT = {"accept": "application/json, text/event-stream"}
SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


PROJECT = "/home/dev/demo"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Sessions of two projects in a store."""
    folder = tmp_path_factory.mktemp("mcp")
    log = typical_log("earlier", PROJECT)
    log.user(f"Use {SECRET} carefully.")
    log.model("I will.")
    log.write(folder / "home")
    typical_log("elsewhere", "/home/dev/other").write(folder / "home")
    with mock.patch.dict(os.environ, {"UNSPOOL_DATA": str(folder / "data")}):
        store = open_store(str(folder / "store.db"))
        assert not Syncer(store, folder / "home").run().failures
        store.close()
    return Settings(
        token=TOKEN,
        store=str(folder / "store.db"),
        homes=(str(folder / "home"),),
        port=PORT,
        follows=False,
    )


@pytest.fixture
def app(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Litestar:
    """An application on them, on the machine that has imported them."""
    monkeypatch.setenv("UNSPOOL_DATA", str(Path(settings.homes[0]).parent / "data"))
    return create_app(settings)


@asynccontextmanager
async def connected(app: Litestar, query: str, **options: Any) -> AsyncIterator[Client]:
    """A client that talks to the application itself."""
    import httpx2
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    async with app.lifespan():
        application: Any = app
        transport = httpx2.ASGITransport(app=application)
        async with (
            httpx2.AsyncClient(transport=transport, headers=BEARER) as http,
            Client(streamable_http_client(f"{BASE}/mcp{query}", http_client=http), **options) as client,
        ):
            yield client


def text_of(result: CallToolResult) -> str:
    from mcp.types import TextContent

    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_all_tools_answer_about_one_project(app: Litestar, mode: str) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search", {"query": "carefully"}),
        ("read_session", {"session": "latest"}),
        ("what_was_refused", {}),
        ("context_at", {"session": "latest"}),
        ("history_of_file", {"path": "src/parser.py"}),
        ("recent_work", {}),
    ]

    async def body() -> list[str]:
        async with connected(app, f"?project={quote(PROJECT)}", mode=mode) as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == [tool for tool, _ in calls]
            return [text_of(await client.call_tool(*call)) for call in calls]

    for text in run(body()):
        assert quotations(text)
        assert "elsewhere" not in text
        assert SECRET not in text


def test_all_projects_and_errors(app: Litestar) -> None:
    async def body() -> list[CallToolResult]:
        async with connected(app, "?all-projects=1") as client:
            return [
                await client.call_tool("recent_work", {}),
                await client.call_tool("recent_work", {"budget": 0}),
                await client.call_tool("read_session", {"session": SECRET}),
            ]

    work, budget, session = run(body())
    assert "2 sessions in all projects" in text_of(work)
    assert (budget.is_error, session.is_error) == (True, True)
    assert SECRET not in text_of(session)


def test_a_relative_project_is_an_error() -> None:
    from unspool.mcp.http import scope_of

    with pytest.raises(UsageError, match="absolute path"):
        scope_of({"project": "demo"}, "/home/dev")
    assert scope_of({}, "/home/dev") == ProjectScope("/home/dev")
    assert scope_of({"all-projects": "1", "project": "/x"}, "/home/dev") == ProjectScope(None)


# --- who may ask ---


def test_only_the_token_opens_it(app: Litestar) -> None:
    """Not the cookie of a browser, not from another site, not under another name."""
    with TestClient(app, base_url=BASE) as client:
        link = f"/open?token={TOKEN}&reading=1"
        assert client.get(link, follow_redirects=False).status_code in (302, 303)
        assert client.get("/").status_code == 200
        denied = client.post("/mcp", json=PING, headers=ACCEPT)
        assert denied.status_code == 401
        assert "Authorization: Bearer TOKEN" in denied.json()["error"]["message"]
        answer = client.post("/mcp", json=PING, headers=BEARER | ACCEPT)
        assert (answer.status_code, answer.json()["result"]) == (200, {})
        for header, status in (
            ({"origin": "https://evil.example"}, 403),
            ({"host": "evil.example"}, 421),
            ({"authorization": "Bearer wrong"}, 401),
            ({"sec-fetch-site": "cross-site"}, 403),
        ):
            assert client.post("/mcp", json=PING, headers=BEARER | ACCEPT | header).status_code == status


def test_what_is_no_message(app: Litestar) -> None:
    """There is nothing to get or to delete, and a body has to be a message of a sensible size."""
    headers = BEARER | ACCEPT | {"content-type": "application/json"}
    with TestClient(app, base_url=BASE) as client:
        for method in ("GET", "DELETE", "PUT"):
            answer = client.request(method, "/mcp", headers=headers)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        for body in (b"", b"{", b"[]", b'"x"', b"\xff", b'{"jsonrpc": "2.0", "id": 1}'):
            assert client.post("/mcp", content=body, headers=headers).status_code == 400
        assert client.post("/mcp", content=b" " * (2 << 20), headers=headers).status_code == 413


def test_an_agent_that_unspool_runs_may_ask(app: Litestar) -> None:
    """It may not act, but to ask changes nothing."""
    with mock.patch("unspool.web.auth.is_agent", return_value=True), TestClient(app, base_url=BASE) as client:
        assert client.post("/mcp", json=PING, headers=BEARER | ACCEPT).status_code == 200


def test_without_the_extra_the_answer_is_how_to_install_it(app: Litestar) -> None:
    missing = MissingExtraError(f"this needs mcp; install it with: {install_command('mcp')}")
    without = mock.patch("unspool.data.extra.import_module", side_effect=ImportError(name="mcp"))
    with without, TestClient(app, base_url=BASE) as client:
        answer = client.post("/mcp", json=PING, headers=BEARER | ACCEPT)
    assert (answer.status_code, answer.json()["error"]["message"]) == (503, str(missing))
