"""The MCP server, built with the official SDK. Each transport has its own way of accessing the store."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from .._version import __version__
from ..core.errors import UnspoolError
from .instructions import instructions
from .tool_table import TOOLS

_log = logging.getLogger("unspool.mcp")
_BROKEN = "An internal error occurred; see the log of the server."

RequestContext: TypeAlias = ServerRequestContext[Any, Any]
Answering: TypeAlias = Callable[[RequestContext, str, Mapping[str, Any]], Awaitable[str]]
"""Runs a tool, given its name and arguments, and returns its text."""


def create_server(answering: Answering, redacted: Callable[[str], str]) -> Server[Any]:
    """Create a server for any transport. `redacted` removes secrets from error messages, which may repeat arguments."""

    async def list_tools(_: RequestContext, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed_tools())

    async def call_tool(context: RequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            text = await answering(context, params.name, params.arguments or {})
        except UnspoolError as error:
            return _result(redacted(str(error)), is_error=True)
        except Exception as error:
            # Log neither the message nor a traceback: both may contain text from sessions.
            _log.error("%s failed: %s at %s", params.name[:50], type(error).__name__, _location(error))
            return _result(_BROKEN, is_error=True)
        return _result(text)

    return Server(
        "unspool",
        version=__version__,
        title="Earlier sessions of coding agents",
        instructions=instructions(),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def listed_tools() -> list[types.Tool]:
    """Return the tools as clients see them."""
    return [
        types.Tool(
            name=tool.name,
            description=tool.description,
            input_schema=tool.input_schema(),
            annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
        )
        for tool in TOOLS.values()
    ]


def _result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)


def _location(error: BaseException) -> str:
    """Return the file and line in which an exception was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "an unknown location"
