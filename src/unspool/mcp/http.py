"""The server at an address: requests of the streamable HTTP transport, each on its own.

Who may send them is decided before they come here. The address says which project is asked about: `?project=PATH`, or
`?all-projects=1`; without either it is the folder that the web server was started in.
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
"""The process at the other end of a connection, and those that it was started by."""
_MOST_BYTES = 1 << 20
"""Of a request."""


class RunsQueries(Protocol):
    """Runs functions of the store in threads."""

    async def run(self, query: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `query(store, …)`."""
        ...


class HttpServer:
    """Answers requests at one address."""

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
        # What the SDK logs may contain parts of requests.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with self._manager.run():
            self._is_ready.set()
            await self._is_done.wait()

    async def close(self) -> None:
        """Stop answering."""
        self._is_done.set()
        await self._task

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        await self._is_ready.wait()
        with suppress(ClientDisconnect):
            # Clients give up on a first request, with which the packages are loaded, and send another.
            await self._manager.handle_request(scope, receive, send)

    async def _answer(self, context: RequestContext, name: str, arguments: Mapping[str, Any]) -> str:
        request = context.request
        assert request is not None
        scope = scope_of(request.query_params, self._folder)
        processes = await asyncio.to_thread(self._find_processes, request.client, request.scope.get("server"))
        callers = find_callers(dict(context.meta or {}), {}, processes, self._homes)
        return await self._pool.run(_ask, scope, callers, self._redactor, name, arguments)


def _ask(
    store: Store,
    scope: ProjectScope,
    callers: list[Caller],
    redactor: Redactor,
    name: str,
    arguments: Mapping[str, Any],
) -> str:
    return call_tool(ToolRequest(store, scope, callers, redactor), name, arguments)


def scope_of(query: Mapping[str, str], folder: str) -> ProjectScope:
    """The project that an address asks about."""
    if query.get("all-projects") in ("1", "true"):
        return ProjectScope(None)
    project = query.get("project") or folder
    if not os.path.isabs(project):
        raise UsageError("project in the address of this server has to be an absolute path")
    return ProjectScope(project)
