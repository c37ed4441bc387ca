"""The application: its routes, what they share, and how it starts and ends."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from litestar import Litestar, Request, Response, get
from litestar.config.compression import CompressionConfig
from litestar.datastructures import State
from litestar.di import NamedDependency, Provide
from litestar.exceptions import HTTPException
from litestar.params import FromQuery, HeaderParameter
from litestar.response import Stream
from litestar.static_files import create_static_files_router

from ..core.errors import AmbiguousError, NotFoundError, UnspoolError, UsageError
from ..runs.log import RunLog
from ..runs.supervisor import Supervisor, limits_from, run_log_path
from ..store import open_store
from . import api, pages, run_pages, runs
from .auth import AuthMiddleware, hosts_of
from .ingest_process import IngestProcess
from .run_sse import RunEvents
from .session_list import url_name
from .session_query import SessionQuery
from .settings import Settings
from .sse import LiveEvents
from .store_pool import StorePool
from .templating import HERE, live_entries
from .views import LiveEntry

EVENTS = "/api/events"
_log = logging.getLogger("unspool.web")


class AppState:
    """Everything that lives as long as a server does."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.desk = StorePool(partial(open_store, settings.store, read_only=True))
        self.hub = LiveEvents(self.desk, _draw)
        self.progress: dict[str, Any] | None = None
        """How far the first reading of everything is."""
        self._feeder = IngestProcess(_arguments(settings), self._hear)
        self._supervisor: Supervisor | None = None
        self._runs: RunEvents | None = None

    @property
    def supervisor(self) -> Supervisor:
        """Who runs agents here."""
        if self._supervisor is None:
            raise UsageError("Running agents is disabled on this server")
        return self._supervisor

    @property
    def runs(self) -> RunEvents:
        """What happens to them."""
        if self._runs is None:
            raise UsageError("Running agents is disabled on this server")
        return self._runs

    def _hear(self, said: dict[str, Any]) -> None:
        if "progress" in said:
            self.progress = said["progress"]
            self.hub.tell("progress", **said["progress"])
        elif "error" in said:
            _log.warning("%s", said["error"])
        else:
            if said.get("ready"):
                self.progress = None
            self.hub.wake()

    @asynccontextmanager
    async def open(self, _: Litestar) -> AsyncIterator[None]:
        """Begin, and end in the other order."""
        # Made, and brought to the form of this version, before anybody only reads it.
        store = await asyncio.to_thread(open_store, self.settings.store)
        store.close()
        tasks = [asyncio.create_task(self.hub.run())]
        if self.settings.follows:
            tasks.append(asyncio.create_task(self._feeder.run()))
        if self.settings.data is not None:
            tasks.append(asyncio.create_task((await self._supervise(Path(self.settings.data))).keep_time()))
        try:
            yield
        finally:
            self.let_go()
            await self._end_agents()
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task
            await asyncio.to_thread(self.desk.close)

    async def _supervise(self, folder: Path) -> Supervisor:
        from ..runs.registry import DRIVERS

        supervisor = Supervisor(RunLog(run_log_path(folder)), DRIVERS, limits=limits_from(os.environ))
        self._supervisor, self._runs = supervisor, RunEvents(supervisor)
        left = await supervisor.recover()
        if left:
            _log.warning("%d agents were left by a server that was killed; they were ended", left)
        return supervisor

    def let_go(self) -> None:
        """End all streams of events: whoever listens would keep the server from ending."""
        self.hub.close()
        if self._runs is not None:
            self._runs.close()

    async def _end_agents(self) -> None:
        if self._supervisor is not None:
            await self._supervisor.close()
            self._supervisor.log.close()


def create_app(settings: Settings) -> Litestar:
    """An application that is ready to be served."""
    room = AppState(settings)
    static = create_static_files_router("/static", [HERE / "static"], include_in_schema=False)
    app = Litestar(
        route_handlers=[live_events, static, *runs.routes, *api.routes, *run_pages.routes, *pages.routes],
        dependencies={
            "desk": Provide(lambda: room.desk, sync_to_thread=False),
            "hub": Provide(lambda: room.hub, sync_to_thread=False),
            "room": Provide(lambda: room, sync_to_thread=False),
            "supervisor": Provide(lambda: room.supervisor, sync_to_thread=False),
            "feed": Provide(lambda: room.runs, sync_to_thread=False),
            "homes": Provide(lambda: settings.homes, sync_to_thread=False),
        },
        exception_handlers={UnspoolError: _answer, HTTPException: _answer, Exception: _answer},
        compression_config=CompressionConfig(
            backend="gzip", gzip_compress_level=3, minimum_size=1000, exclude=[f"^{EVENTS}$", "^/api/runs/events$"]
        ),
        # The API describes itself, better than the framework could.
        openapi_config=None,
        lifespan=[room.open],
        state=State({"room": room}),
        logging_config=None,
    )
    # In front of everything, also of addresses that do not exist.
    hosts = hosts_of(settings.host, settings.port, settings.names)
    app.asgi_handler = AuthMiddleware(app.asgi_handler, settings.token, hosts, settings.cookie)
    return app


@get(EVENTS, include_in_schema=False)
async def live_events(
    request: Request[Any, Any, Any],
    hub: NamedDependency[LiveEvents],
    since: FromQuery[int | None] = None,
    session: FromQuery[list[str] | None] = None,
    last_event_id: Annotated[str | None, HeaderParameter(name="Last-Event-ID")] = None,
) -> Stream:
    """Everything that happens from now on, or since a number, as server-sent events."""
    unknown = set(request.query_params) - {"since", "session"}
    if unknown:
        raise UsageError(f"{EVENTS} takes since and session, not {', '.join(sorted(unknown))}")
    if last_event_id:
        if not last_event_id.isdecimal():
            raise UsageError(f"Last-Event-ID is the number of an event, not {last_event_id!r}")
        since = int(last_event_id)
    frames = hub.watch(since, session or [])
    return Stream(frames, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _draw(reader: SessionQuery, first: int, last: int) -> list[LiveEntry]:
    return live_entries(reader.news(first, last), url_name(reader.row))


def _arguments(settings: Settings) -> list[str]:
    place = ["--store", settings.store] if settings.store else []
    homes = [argument for home in settings.homes for argument in ("--home", home)]
    return [*place, *homes, *(["--poll"] if settings.polls else [])]


def _answer(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """What went wrong, in the form that was asked for."""
    status, sentence = _told(error)
    if status >= 500:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    if request.url.path.startswith("/api"):
        return api.error_response(status, sentence)
    return pages.error_response(status, sentence)


def _told(error: Exception) -> tuple[int, str]:
    if isinstance(error, NotFoundError):
        return 404, str(error)
    if isinstance(error, UsageError | AmbiguousError):
        return 400, str(error)
    if isinstance(error, UnspoolError):
        return 503, str(error)
    if isinstance(error, HTTPException):
        return error.status_code, api.explain(error)
    return 500, "Something went wrong in unspool itself; the terminal it runs in says more."
