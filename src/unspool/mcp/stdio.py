"""The MCP server as a program that an agent starts: it reads standard input and writes to standard output."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import msgspec
from mcp.server.stdio import stdio_server

from ..core.errors import NotFoundError
from ..library import Library
from ..redact import Redactor
from ..runs.processes import ancestry
from ..store import Store, open_store
from .background_sync import BackgroundSync
from .caller import find_callers
from .request import ToolRequest
from .scope import ProjectScope
from .server import RequestContext, create_server
from .tool_table import call_tool


class StdioSettings(msgspec.Struct, kw_only=True, frozen=True):
    """Settings of a server for one agent."""

    scope: ProjectScope
    store: str | None = None
    homes: tuple[str, ...] = ()
    syncs: bool = True
    redactor: Redactor | None = None


class StdioServer:
    """Serves one agent, one request at a time."""

    def __init__(self, settings: StdioSettings) -> None:
        self._settings = settings
        self._sync = BackgroundSync(settings.store, settings.homes) if settings.syncs else None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="unspool-mcp")
        self._store: Store | None = None
        self._started = datetime.now(UTC)
        self._homes = Library(*settings.homes).homes()

    def run(self) -> None:
        """Serve until the agent closes the connection."""
        # The log messages of the SDK may contain parts of requests.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        # A thread is blocked reading standard input, and Python would wait for it before exiting.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        if self._sync is not None:
            # Start the first import before the first request.
            await asyncio.to_thread(self._sync.wait, 0)
        server = create_server(self._answer, self._redacted)
        try:
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
        finally:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
            self._thread.shutdown()

    def _redacted(self, text: str) -> str:
        return text if self._settings.redactor is None else self._settings.redactor.text(text)

    async def _answer(self, context: RequestContext, name: str, arguments: Mapping[str, Any]) -> str:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._run_tool, dict(context.meta or {}), name, arguments)

    def _run_tool(self, meta: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> str:
        is_behind = self._sync is not None and not self._sync.wait()
        store = self._opened()
        callers = find_callers(meta, os.environ, ancestry(os.getppid()), self._homes, self._started)
        with store.snapshot():
            settings = self._settings
            request = ToolRequest(store, settings.scope, callers, settings.redactor, is_behind=is_behind)
            return call_tool(request, name, arguments)

    def _opened(self) -> Store:
        if self._store is not None and self._store.is_lost:
            self._close()
        if self._store is None:
            try:
                self._store = open_store(self._settings.store, read_only=True)
            except NotFoundError as error:
                raise NotFoundError("there is no store yet; run `unspool sync`") from error
        return self._store

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
