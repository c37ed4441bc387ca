"""Runs queries of the store for asynchronous code, in a few threads with a connection each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from ..runs.session_runs import SessionRuns
from ..store import Store
from .run_states import known_runs
from .update_delay import known_delay

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 4


class StorePool:
    """Runs functions that use the store in threads."""

    def __init__(self, open_store: Callable[[], Store], threads: int = _THREADS) -> None:
        self.session_runs: Callable[[], SessionRuns] = dict
        """Returns the supervisor's runs by session; empty if there is no supervisor."""
        self.delay_reason: str | None = None
        """The reason why changes of files are noticed late, if they are."""
        self._open_store = open_store
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="unspool-store")
        self._local = threading.local()
        self._opened: list[Store] = []
        self._lock = threading.Lock()

    async def run(self, query: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `query(store, …)` in a thread, inside one snapshot of the store and of the runs."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(self._run, self.session_runs(), query, args, kwargs))

    def _run(
        self, runs: SessionRuns, query: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> T:
        store: Store | None = getattr(self._local, "store", None)
        if store is None:
            store = self._local.store = self._open_store()
            with self._lock:
                self._opened.append(store)
        try:
            with store.snapshot(), known_runs(runs), known_delay(self.delay_reason):
                return query(store, *args, **kwargs)
        finally:
            # A lost connection is opened again by the next query.
            if store.is_lost:
                self._local.store = None
                with self._lock:
                    self._opened.remove(store)
                store.close()

    def close(self) -> None:
        """Wait for running queries and close all connections."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for store in self._opened:
            store.close()
