"""Serving the application to browsers on this computer."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

import msgspec
import uvicorn

from ..core.errors import UnspoolError
from .app import create_app
from .settings import Settings

_TRIES = 20
_GRACE_SECONDS = 15
"""For requests that are being answered. Streams of events are ended before."""


def serve(settings: Settings, opened: Callable[[Settings], None], *, any_port: bool = False) -> None:
    """Serve until Ctrl-C; `opened` is called with the real port. `any_port`: another one where that is taken."""
    listening, port = _listen(settings.host, settings.port, any_port)
    settings = msgspec.structs.replace(settings, port=port)
    app = create_app(settings)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS, timeout_keep_alive=60, lifespan="on",
    )  # fmt: skip
    server = _Server(config, lambda: opened(settings), app.state["room"].let_go)
    server.run(sockets=[listening])


class _Server(uvicorn.Server):
    """Tells when it is ready, and when it is about to end."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self._ending = ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End: those who listen to events first, because the others are waited for."""
        self._ending()
        await super().shutdown(sockets)


def _listen(host: str, port: int, any_port: bool) -> tuple[socket.socket, int]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in range(port, port + (_TRIES if any_port and port else 1)):
        try:
            listening = socket.create_server((host, candidate), family=family, backlog=512)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                continue
            raise UnspoolError(f"cannot listen on {host}:{candidate}: {error.strerror or error}") from error
        return listening, int(listening.getsockname()[1])
    raise UnspoolError(f"port {port} of {host} is taken by another program; choose one with --port, or 0 for any")
