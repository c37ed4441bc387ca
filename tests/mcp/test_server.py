"""What a client and the log are told when something goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from unspool.core.errors import UsageError
from unspool.redact import Redactor

from ..runs.harness import run
from .sdk import skip_without_sdk

if TYPE_CHECKING:
    from unspool.mcp.server import RequestContext

skip_without_sdk()
SECRET = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError(f"a bug with {SECRET} in it"), "An internal error occurred; see the log of the server."),
        (UsageError(f"no time: {SECRET}"), f"no time: {Redactor(b'key').text(SECRET)}"),
    ],
)
def test_errors_have_no_secrets(error: Exception, told: str, caplog: pytest.LogCaptureFixture) -> None:
    from mcp.client.client import Client
    from mcp.types import TextContent

    from unspool.mcp.server import create_server

    async def fail(_: RequestContext, __: str, ___: Mapping[str, Any]) -> str:
        raise error

    async def body() -> tuple[bool | None, str]:
        async with Client(create_server(fail, Redactor(b"key").text)) as client:
            result = await client.call_tool("search", {"query": "x"})
            (content,) = result.content
            assert isinstance(content, TextContent)
            return result.is_error, content.text

    assert run(body()) == (True, told)
    assert SECRET not in caplog.text
    if isinstance(error, ValueError):
        assert "search failed: ValueError at " in caplog.text
        assert "test_server.py:" in caplog.text
