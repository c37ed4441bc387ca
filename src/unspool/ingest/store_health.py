"""Work for idle times: maintains and verifies the store, a little at a time, and repairs it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from ..store import Store
from ..store.integrity import DataFault
from .idle_maintenance import IdleMaintenance
from .store_repair import StoreRepair
from .verify import Verifier

_SLICE_SECONDS = 0.02
"""How long one call may spend on verification."""
_FIRST_PAUSE_SECONDS = 300.0
"""The delay before the first verification, because there is more important work when a program starts."""
_PAUSE_SECONDS = 24 * 3600.0
"""The time between the end of one verification and the start of the next."""


class StoreHealth:
    """The problems of a store: unread sessions and damaged data. It maintains and verifies the store in idle times."""

    def __init__(self, store: Store, verifies: bool) -> None:
        self._store = store
        self._verifies = verifies
        self._maintenance = IdleMaintenance(store)
        self._steps: Iterator[None] | None = None
        self._verifier = Verifier(store)
        self._not_before = time.monotonic() + _FIRST_PAUSE_SECONDS
        self._damage: dict[str, str] = {}
        """Damage that could not be repaired, by session or file."""
        self.unread: dict[str, str] = {}
        """Why sessions could not be read in the last sync, by session."""

    @property
    def failures(self) -> dict[str, str]:
        """The unread sessions and the unrepaired damage."""
        return self.unread | self._damage

    def continue_briefly(self, *homes: str | Path) -> bool:
        """Maintain and verify the store for a moment, and repair it when everything has been verified.

        Returns True when a verification has ended, if it found damage or the previous one had left some unrepaired.
        """
        if not self._verifies:
            return False
        self._maintenance.continue_briefly()
        if self._steps is None:
            if time.monotonic() < self._not_before:
                return False
            self._verifier = Verifier(self._store)
            self._steps = self._verifier.steps()
        until = time.monotonic() + _SLICE_SECONDS
        for _ in self._steps:
            if time.monotonic() >= until:
                return False
        return self._finish(self._verifier.found.faults, *homes)

    def _finish(self, faults: list[DataFault], *homes: str | Path) -> bool:
        self._steps = None
        self._not_before = time.monotonic() + _PAUSE_SECONDS
        was_damaged = bool(self._damage or faults)
        if faults:
            StoreRepair(self._store, *homes).run(faults)
        self._damage = {fault.name: fault.text for fault in faults if fault.repaired_from is None}
        return was_damaged
