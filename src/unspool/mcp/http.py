"""The MCP server over HTTP: the streamable HTTP transport in stateless mode.

Requests are authenticated before they arrive here. The URL selects the project: `?project=PATH` or `?all-projects=1`;
without either, it is the folder in which the web server was started.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import ClientDisconnect

from ..core.errors import UsageError
from ..library import Library
from ..redact import Redactor
from ..store import Store
from .caller import find_callers
from .request import ToolRequest
from .scope import Caller, ProjectScope
from .server import RequestContext, create_server
from .tool_table import call_tool

P = ParamSpec("P")
T = TypeVar("T")
FindProcesses = Callable[[tuple[str, int] | None, tuple[str, int] | None], tuple[int, ...]]
"""Returns the process at the other end of a connection, followed by its ancestors."""
_MOST_BYTES = 1 << 20
"""Maximum size of a request body."""


class RunsQueries(Protocol):
    """Runs functions that use the store in threads."""

    async def run(self, query: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `query(store, …)`."""
        ...


class HttpServer:
    """Handles the requests to the MCP endpoint."""

    def __init__(
        self, pool: RunsQueries, homes: tuple[str, ...], redactor: Redactor, find_processes: FindProcesses
    ) -> None:
        self._pool = pool
        self._homes = Library(*homes).homes()
        self._redactor = redactor
        self._find_processes = find_processes
        self._folder = os.getcwd()
        self._manager = StreamableHTTPSessionManager(
            create_server(self._answer, redactor.text),
            json_response=True,
            stateless=True,
            max_request_body_size=_MOST_BYTES,
        )
        self._is_ready = asyncio.Event()
        self._is_done = asyncio.Event()
        # The log messages of the SDK may contain parts of requests.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with self._manager.run():
            self._is_ready.set()
            await self._is_done.wait()

    async def close(self) -> None:
        """Stop handling requests."""
        self._is_done.set()
        await self._task

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        await self._is_ready.wait()
        with suppress(ClientDisconnect):
            # The first request is slow, because it loads packages: some clients give up and send another.
            await self._manager.handle_request(scope, receive, send)

    async def _answer(self, context: RequestContext, name: str, arguments: Mapping[str, Any]) -> str:
        request = context.request
        assert request is not None
        scope = scope_of(request.query_params, self._folder)
        processes = await asyncio.to_thread(self._find_processes, request.client, request.scope.get("server"))
        callers = find_callers(dict(context.meta or {}), {}, processes, self._homes)
        return await self._pool.run(_run_tool, scope, callers, self._redactor, name, arguments)


def _run_tool(
    store: Store,
    scope: ProjectScope,
    callers: list[Caller],
    redactor: Redactor,
    name: str,
    arguments: Mapping[str, Any],
) -> str:
    return call_tool(ToolRequest(store, scope, callers, redactor), name, arguments)


def scope_of(query: Mapping[str, str], folder: str) -> ProjectScope:
    """Return the project that the query string of a URL selects."""
    if query.get("all-projects") in ("1", "true"):
        return ProjectScope(None)
    project = query.get("project") or folder
    if not os.path.isabs(project):
        raise UsageError("project in the URL of this server must be an absolute path")
    return ProjectScope(project)
