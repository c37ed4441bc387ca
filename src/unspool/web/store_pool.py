"""Asking the store from an asynchronous program: a few threads, each with a connection of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from ..store import Store

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 4


class StorePool:
    """Takes questions to the store."""

    def __init__(self, open_store: Callable[[], Store], threads: int = _THREADS) -> None:
        self._open_store = open_store
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="unspool-desk")
        self._own = threading.local()
        self._opened: list[Store] = []
        self._lock = threading.Lock()

    async def ask(self, question: Callable[Concatenate[Store, P], T], *args: P.args, **more: P.kwargs) -> T:
        """Run `question(store, …)` where it does not hold up anybody else."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(self._answer, question, args, more))

    def _answer(self, question: Callable[..., T], args: tuple[object, ...], more: dict[str, object]) -> T:
        store: Store | None = getattr(self._own, "store", None)
        if store is None:
            store = self._own.store = self._open_store()
            with self._lock:
                self._opened.append(store)
        try:
            with store.snapshot():
                return question(store, *args, **more)
        finally:
            # A connection that was lost is made anew with the next question.
            if store.is_lost:
                self._own.store = None

    def close(self) -> None:
        """Let go of everything; questions that are being answered are waited for."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for store in self._opened:
            store.close()
