"""The app: its routes, their shared state, startup and shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from litestar import Litestar
from litestar.config.compression import CompressionConfig
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException

from ..core.errors import NotFoundError, UnspoolError
from ..runs.revert import Reverts
from ..runs.sandbox import hidden_paths
from ..runs.supervisor import Supervisor, limits_from, run_log_path
from ..store import open_store
from ..store.locate import STORE_VARIABLE
from ..store.run_log import RunLog
from .api.routes import routes as api_routes
from .api.streams import LIVE_EVENTS, RUN_EVENTS
from .assets import PATH as ASSETS
from .assets import asset_file
from .auth import AuthMiddleware, hosts_of
from .errors import on_error
from .ingest_process import IngestProcess
from .live_events import LiveEvents
from .mcp_endpoint import McpEndpoint, mcp_endpoint
from .notifications import PushNotifier
from .pages.routes import routes as page_routes
from .raw_requests import MCP
from .run_events import RunEvents
from .session_list import title_of_session, url_name
from .session_query import SessionQuery
from .settings import Settings
from .store_pool import StorePool
from .templating import live_entries
from .transcript_pages import TranscriptPages
from .views import LiveEntry

_log = logging.getLogger("unspool.web")


class AppState:
    """The objects that exist as long as the server runs."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pool = StorePool(partial(open_store, settings.store, read_only=True))
        self.mcp = McpEndpoint(self.pool, settings)
        self.live_events = LiveEvents(self.pool, _render_new)
        self.progress: dict[str, Any] | None = None
        """The progress of the first sync; None if it is not running."""
        self._ingest = IngestProcess(_ingest_arguments(settings), self._on_report, settings.store)
        self._supervisor: Supervisor | None = None
        self._run_events: RunEvents | None = None
        self.notifier: PushNotifier | None = None
        self.reverts: Reverts | None = None
        """Copies of files from before agents changed them; None if this server does not run agents."""

    @property
    def supervisor(self) -> Supervisor:
        """The supervisor of the agents. Raises NotFoundError if running agents is disabled."""
        if self._supervisor is None:
            raise NotFoundError("Running agents is disabled on this server")
        return self._supervisor

    @property
    def run_events(self) -> RunEvents:
        """The event stream of running agents. Raises NotFoundError if running agents is disabled."""
        if self._run_events is None:
            raise NotFoundError("Running agents is disabled on this server")
        return self._run_events

    def push_notifier(self) -> PushNotifier:
        """Return the notifier for browsers. Raises NotFoundError if running agents is disabled."""
        if self.notifier is None:
            raise NotFoundError("Running agents is disabled on this server")
        return self.notifier

    def _on_report(self, report: dict[str, Any]) -> None:
        if "progress" in report:
            self.progress = report["progress"]
            self.live_events.announce("progress", **report["progress"])
        elif "slow" in report:
            self.pool.delay_reason = report["slow"]
            self.live_events.announce("updates.slow", reason=report["slow"])
        elif "error" in report:
            _log.warning("%s", report["error"])
        else:
            if report.get("ready"):
                self.progress = self.pool.delay_reason = None
            self.live_events.wake()

    @asynccontextmanager
    async def open(self, _: Litestar) -> AsyncIterator[None]:
        """Start the background tasks and the supervisor on entry, and stop them on exit."""
        # Create and migrate the store before the pool opens it read-only.
        store = await asyncio.to_thread(open_store, self.settings.store)
        store.close()
        tasks = [asyncio.create_task(self.live_events.run())]
        if self.settings.follows:
            tasks.append(asyncio.create_task(self._ingest.run()))
        if self.settings.data is not None:
            supervisor = await self._start_supervisor(Path(self.settings.data))
            tasks.append(asyncio.create_task(supervisor.keep_time()))
        try:
            yield
        finally:
            self.end_streams()
            await self.mcp.close()
            await self._stop_supervisor()
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task
            await asyncio.to_thread(self.pool.close)

    async def _start_supervisor(self, folder: Path) -> Supervisor:
        from ..runs.registry import DRIVERS

        log, limits = RunLog(run_log_path(folder)), limits_from(os.environ)
        store = self.settings.store or os.environ.get(STORE_VARIABLE)
        hidden = hidden_paths(folder, store)
        supervisor = Supervisor(log, DRIVERS, limits=limits, hidden=hidden, sandbox=self.settings.sandbox)
        self._supervisor, self._run_events = supervisor, RunEvents(supervisor)
        self.reverts = Reverts(supervisor.log, folder, supervisor.run)
        supervisor.watch(self.reverts.before_images.on_event)
        self.notifier = PushNotifier(
            folder,
            self.settings.public_url,
            supervisor.run,
            title_of=lambda agent, session: self.pool.run(title_of_session, agent, session),
        )
        supervisor.watch(self.notifier.on_event)
        self.pool.session_runs = supervisor.session_runs
        stopped = await supervisor.recover()
        if stopped:
            _log.warning("Stopped %d agents that were left over from a server that was killed", stopped)
        return supervisor

    async def _stop_supervisor(self) -> None:
        if self._supervisor is not None:
            await self._supervisor.close()
            self._supervisor.log.close()

    def end_streams(self) -> None:
        """End all event streams: the server waits for open requests before it shuts down."""
        self.live_events.close()
        if self._run_events is not None:
            self._run_events.close()


def create_app(settings: Settings) -> Litestar:
    """Create an app that is ready to be served."""
    state = AppState(settings)
    app = Litestar(
        route_handlers=[asset_file, mcp_endpoint, *api_routes, *page_routes],
        dependencies={
            "pool": Provide(lambda: state.pool, sync_to_thread=False),
            "live_events": Provide(lambda: state.live_events, sync_to_thread=False),
            "app_state": Provide(lambda: state, sync_to_thread=False),
            "supervisor": Provide(lambda: state.supervisor, sync_to_thread=False),
            "run_events": Provide(lambda: state.run_events, sync_to_thread=False),
            "homes": Provide(lambda: settings.homes, sync_to_thread=False),
        },
        exception_handlers={UnspoolError: on_error, HTTPException: on_error, Exception: on_error},
        compression_config=CompressionConfig(
            backend="gzip",
            gzip_compress_level=3,
            minimum_size=1000,
            exclude=[f"^{LIVE_EVENTS}$", f"^{RUN_EVENTS}$", f"^{ASSETS}/", f"^{MCP}$"],
        ),
        # The API publishes its own, more precise description.
        openapi_config=None,
        lifespan=[state.open],
        state=State({"app_state": state}),
        logging_config=None,
    )
    # Access is checked before routing, so that requests to unknown addresses are checked as well.
    hosts = hosts_of(settings.host, settings.port, settings.names) | settings.public_hosts
    access = settings.access(rotates=True)
    app.asgi_handler = AuthMiddleware(app.asgi_handler, access, hosts, settings.port, settings.cookie)
    return app


def _render_new(query: SessionQuery, first: int, last: int) -> list[LiveEntry]:
    return live_entries(TranscriptPages(query).new_entries(first, last), url_name(query.row))


def _ingest_arguments(settings: Settings) -> list[str]:
    homes = [argument for home in settings.homes for argument in ("--home", home)]
    return [*homes, *(["--poll"] if settings.polls else [])]
