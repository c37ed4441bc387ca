"""The HTTP endpoint of the MCP server, for agents that are configured with an address instead of a command."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from litestar import asgi
from litestar.types import Receive, Scope, Send

from ..core.errors import MissingExtraError
from ..redact import Redactor
from ..runs.processes import ancestry, holders_of_socket
from ..store.locate import data_folder
from ..store.redaction_key import redaction_key
from .errors import error_json
from .peers import Peer, find_peer
from .raw_requests import MCP
from .settings import Settings
from .socket_owner import Address
from .store_pool import StorePool

if TYPE_CHECKING:
    from ..mcp.http import HttpServer


class McpEndpoint:
    """Starts the MCP server on the first request: its packages are optional and slow to load."""

    def __init__(self, pool: StorePool, settings: Settings) -> None:
        self._pool = pool
        self._settings = settings
        self._server: HttpServer | None = None
        self._lock = asyncio.Lock()

    async def server(self) -> HttpServer:
        """Return the server, after starting it if necessary. Raises MissingExtraError."""
        async with self._lock:
            if self._server is None:
                self._server = await self._start()
            return self._server

    async def _start(self) -> HttpServer:
        from ..mcp.extra import check_extra

        await asyncio.to_thread(check_extra)
        from ..mcp.http import HttpServer

        key = await asyncio.to_thread(redaction_key, data_folder())
        return HttpServer(self._pool, self._settings.homes, Redactor(key), _processes)

    async def close(self) -> None:
        """Stop the server, if it was started."""
        if self._server is not None:
            await self._server.close()
            self._server = None


def _processes(client: Address | None, server: Address | None) -> tuple[int, ...]:
    """Return the process at the other end of a connection and its ancestors; empty if it is not known."""
    peer = find_peer(client, server)
    holders = holders_of_socket(peer.inode) if isinstance(peer, Peer) else iter(())
    return tuple(pid for holder in holders for pid in ancestry(holder))


@asgi(MCP, copy_scope=True)
async def mcp_endpoint(scope: Scope, receive: Receive, send: Send) -> None:
    """Pass a request to the MCP server. It is stateless, so there is no stream to GET and no session to DELETE."""
    if scope.get("method") != "POST":
        await _respond(send, 405, error_json(405, "Method not allowed. Use POST."), (b"allow", b"POST"))
        return
    endpoint: McpEndpoint = scope["litestar_app"].state["app_state"].mcp
    try:
        server = await endpoint.server()
    except MissingExtraError as error:
        await _respond(send, 503, error_json(503, str(error)))
        return
    await server.handle(scope, receive, send)


async def _respond(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    given = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": body, "more_body": False})
