"""Transactions of a sync: each session is written in one, and small ones share one, because commits are slow."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from ..core.errors import DamagedError, RejectedValueError, UnspoolError
from ..store import Store

_BATCH_BYTES = 24 << 20
"""Bytes of sessions that are committed together."""
_BATCH_SECONDS = 2.0
"""Maximum time that finished sessions wait for their commit."""


Failed = Callable[[Exception], None]


def concerns_session(error: Exception) -> bool:
    """Whether an error only affects the session that is read or written, so that the others can be synced.

    A database that is full, locked or lost affects all of them.
    """
    return not isinstance(error, UnspoolError) or isinstance(error, RejectedValueError | DamagedError)


class Pipeline:
    """Does writes in order, in as few transactions as possible."""

    def __init__(
        self,
        store: Store,
        committed: Callable[[], None] | None = None,
        rolled_back: Callable[[], None] | None = None,
    ) -> None:
        """`committed` is called after each commit, `rolled_back` when all writes since the last one are undone."""
        self._store = store
        self._committed = committed
        self._rolled_back = rolled_back
        self._batch: list[tuple[Callable[[], None], Failed]] = []
        """The sessions that were written since the last commit."""
        self._open: ExitStack | None = None
        self._written = 0
        self._started = 0.0

    def write(self, work: Callable[[], None], weight: int = 0) -> None:
        """Do some work in a transaction; `weight` is the approximate number of bytes that it writes."""
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

    def session(self, work: Callable[[], None], failed: Failed, again: Callable[[], None] | None = None) -> None:
        """Do all writes of a session.

        If they fail, the transaction is rolled back, and the sessions that shared it are written again, each in its
        own transaction: by `again` if `work` cannot be repeated. Then `failed` is called.
        """
        try:
            work()
        except Exception as error:
            if not concerns_session(error):
                raise
            batch, self._batch = self._batch, []
            self.cancel(error)
            for other in batch:
                self.session(*other)
                self.commit()
            failed(error)
            return
        self._batch.append((again or work, failed))
        self._end_session()

    def begin_large(self) -> None:
        """Start a transaction for a session that is too large to wait in memory."""
        self.commit()

    def _end_session(self) -> None:
        """Commit if the batch is large enough."""
        if self._written > _BATCH_BYTES or time.monotonic() - self._started > _BATCH_SECONDS:
            self.commit()

    def commit(self) -> None:
        """Commit the open transaction, if any."""
        self._batch.clear()
        if self._open is not None:
            open, self._open = self._open, None
            open.close()
            if self._committed is not None:
                self._committed()

    def cancel(self, error: BaseException) -> None:
        """Roll back the open transaction, if any."""
        if self._open is not None:
            open, self._open = self._open, None
            open.__exit__(type(error), error, error.__traceback__)
        if self._rolled_back is not None:
            self._rolled_back()
