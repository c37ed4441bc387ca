"""Serves the app to browsers."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

import msgspec
import uvicorn

from ..core.errors import UnspoolError
from .app import create_app
from .settings import Settings

_PORTS_TRIED = 20
_LOOPBACK_V4 = ("127.0.0.1", "localhost")
_GRACE_SECONDS = 15
"""Time for requests in progress at shutdown. Event streams are ended first."""


def serve(settings: Settings, on_ready: Callable[[Settings], None], *, any_port: bool = False) -> None:
    """Serve until Ctrl-C. `on_ready` is called with the actual port; with `any_port` it may be another one."""
    listening, port = _listen(settings.host, settings.port, any_port)
    settings = msgspec.structs.replace(settings, port=port)
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        timeout_keep_alive=60,
        lifespan="on",
        # Otherwise any program on this computer could use a header to claim to be another client.
        proxy_headers=False,
        ssl_certfile=settings.certificate[0] if settings.certificate is not None else None,
        ssl_keyfile=settings.certificate[1] if settings.certificate is not None else None,
    )
    server = _Server(config, lambda: on_ready(settings), app.state["app_state"].end_streams)
    server.run(sockets=listening)


class _Server(uvicorn.Server):
    """Calls back when it is ready, and when it is about to shut down."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None], on_shutdown: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_shutdown = on_shutdown

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start accepting requests."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down. Event streams end first, because the server waits for open requests."""
        self._on_shutdown()
        await super().shutdown(sockets)


def _listen(host: str, port: int, any_port: bool) -> tuple[list[socket.socket], int]:
    for candidate in range(port, port + (_PORTS_TRIED if any_port or not port else 1)):
        listening: list[socket.socket] = []
        try:
            listening.append(_bind(host, candidate if port else 0))
            actual = int(listening[0].getsockname()[1])
            listening += _bind_twin(host, actual)
        except OSError as error:
            for each in listening:
                each.close()
            if error.errno == errno.EADDRINUSE:
                continue
            raise UnspoolError(f"cannot listen on {host}:{candidate}: {error.strerror or error}") from error
        return listening, actual
    raise UnspoolError(f"port {port} of {host} is already in use; choose another with --port, or 0 for any free one")


def _bind(host: str, port: int) -> socket.socket:
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512)


def _bind_twin(host: str, port: int) -> list[socket.socket]:
    """Bind the other loopback address as well: names that end in `.localhost` resolve to both.

    Otherwise a program of another user could listen there, and receive requests and secrets meant for this server.
    """
    twin = "127.0.0.1" if host in ("::", "::1") else "::1" if host in ("0.0.0.0", "", *_LOOPBACK_V4) else None
    if twin is None:
        return []  # Loopback names do not lead to such a server.
    try:
        return [_bind(twin, port)]
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise
        return []  # This computer has no such address, so nothing else can listen there either.
