"""Keeps the store up to date while a server waits for requests."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import closing

from ..core.errors import BusyError, UnspoolError
from ..ingest.sync import Syncer
from ..store import open_store

_log = logging.getLogger("unspool.mcp")
_LOCK_SECONDS = 3.0
"""How long to wait for another process that is importing sessions, since it does the same work."""
PATIENCE_SECONDS = 20.0
"""How long a request waits for the import. Clients give up after about a minute."""


class BackgroundSync:
    """Imports new data in a thread. A request starts the import and waits a limited time for it to finish."""

    def __init__(self, store: str | None, homes: Sequence[str]) -> None:
        self._store = store
        self._homes = homes
        self._running: threading.Thread | None = None
        self._lock = threading.Lock()

    def wait(self, seconds: float = PATIENCE_SECONDS) -> bool:
        """Import new data, and return whether that finished in time. If not, the import continues."""
        with self._lock:
            if self._running is None or not self._running.is_alive():
                # It must not keep the process alive after the client is gone. An incomplete write is rolled back.
                self._running = threading.Thread(target=self._sync, name="unspool-sync", daemon=True)
                self._running.start()
            running = self._running
        running.join(seconds)
        return not running.is_alive()

    def _sync(self) -> None:
        try:
            with closing(open_store(self._store)) as store:
                Syncer(store, *self._homes).run(patience=_LOCK_SECONDS)
        except BusyError:
            pass
        except (UnspoolError, OSError) as error:
            _log.warning("sessions were not imported: %s", type(error).__name__)
