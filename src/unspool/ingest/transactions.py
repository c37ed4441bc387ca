"""Transactions of a run: a session is written in one or not at all; small ones share one, because a commit costs more
than they do."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from ..store import Store

_TOGETHER = 24 << 20
"""Bytes of sessions that are committed together."""
_SECONDS = 2.0
"""How long finished sessions may wait for their commit."""


class Pipeline:
    """Writes what it is given, in order."""

    def __init__(self, store: Store, committed: Callable[[], None] | None = None) -> None:
        """`committed` is called when something lasts."""
        self._store = store
        self._committed = committed
        self._open: ExitStack | None = None
        self._written = 0
        self._began = 0.0

    def do(self, work: Callable[[], None], weight: int = 0) -> None:
        """Write something; `weight` is about how many bytes it holds."""
        if self._open is None:
            self._open = ExitStack()
            self._open.enter_context(self._store.transaction())
            self._began = time.monotonic()
            self._written = 0
        self._written += weight
        try:
            work()
        except BaseException as error:
            open, self._open = self._open, None
            open.__exit__(type(error), error, error.__traceback__)
            raise

    def begin_alone(self) -> None:
        """What comes is too large to wait in memory: it gets a transaction of its own."""
        self.commit()

    def end(self) -> None:
        """A session is complete: what was written may be committed."""
        if self._written > _TOGETHER or time.monotonic() - self._began > _SECONDS:
            self.commit()

    def commit(self) -> None:
        """Make it last."""
        if self._open is not None:
            open, self._open = self._open, None
            open.close()
            if self._committed is not None:
                self._committed()

    def cancel(self, error: BaseException) -> None:
        """Take back what was not committed."""
        if self._open is not None:
            open, self._open = self._open, None
            open.__exit__(type(error), error, error.__traceback__)
