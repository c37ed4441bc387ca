"""What is done while nothing else is to do: the store is maintained, verified, a little at a time, and repaired."""

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
"""How long one turn may take."""
_FIRST_PAUSE_SECONDS = 300.0
"""The time before the first verification: there is more important work when a program starts."""
_PAUSE_SECONDS = 24 * 3600.0
"""The time between the end of one verification and the start of the next."""


class StoreHealth:
    """What is wrong with a store: what could not be read, and what is damaged. It verifies the store now and then."""

    def __init__(self, store: Store, verifies: bool) -> None:
        self._store = store
        self._verifies = verifies
        self._maintenance = IdleMaintenance(store)
        self._steps: Iterator[None] | None = None
        self._verifier = Verifier(store)
        self._not_before = time.monotonic() + _FIRST_PAUSE_SECONDS
        self._damage: dict[str, str] = {}
        """What is damaged and could not be repaired, by session or file."""
        self.unread: dict[str, str] = {}
        """Why sessions could not be read in the last sync, by session."""

    @property
    def failures(self) -> dict[str, str]:
        """Both together."""
        return self.unread | self._damage

    def continue_briefly(self, *homes: str | Path) -> bool:
        """Maintain and verify for a moment, and repair at the end; returns whether something is or was damaged."""
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
