"""Transactions of a sync: each session is written in one; small ones share one, because commits are slow."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from ..store import Store

_BATCH_BYTES = 24 << 20
"""Bytes of sessions that are committed together."""
_BATCH_SECONDS = 2.0
"""How long finished sessions may wait for their commit."""


class Pipeline:
    """Does writes in order, in as few transactions as possible."""

    def __init__(self, store: Store, committed: Callable[[], None] | None = None) -> None:
        """`committed` is called after each commit."""
        self._store = store
        self._committed = committed
        self._open: ExitStack | None = None
        self._written = 0
        self._started = 0.0

    def write(self, work: Callable[[], None], weight: int = 0) -> None:
        """Do some work in a transaction; `weight` is about how many bytes it writes."""
        if self._open is None:
            self._open = ExitStack()
            self._open.enter_context(self._store.transaction())
            self._started = time.monotonic()
            self._written = 0
        self._written += weight
        try:
            work()
        except BaseException as error:
            open, self._open = self._open, None
            open.__exit__(type(error), error, error.__traceback__)
            raise

    def begin_large(self) -> None:
        """Start a transaction for a session that is too large to wait in memory."""
        self.commit()

    def end_session(self) -> None:
        """Note that a session is complete, and commit if the batch is large enough."""
        if self._written > _BATCH_BYTES or time.monotonic() - self._started > _BATCH_SECONDS:
            self.commit()

    def commit(self) -> None:
        """Commit the open transaction, if any."""
        if self._open is not None:
            open, self._open = self._open, None
            open.close()
            if self._committed is not None:
                self._committed()

    def cancel(self, error: BaseException) -> None:
        """Roll the open transaction back, if any."""
        if self._open is not None:
            open, self._open = self._open, None
            open.__exit__(type(error), error, error.__traceback__)
