"""Maintains a store while unspool is idle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ..store import Store
from ..store.maintenance import Maintenance

_QUIET_SECONDS = 20.0
"""Time without changes after which maintenance starts."""
_STEPS_SECONDS = 0.1
"""How long one call may take; a step that has begun is completed."""


class IdleMaintenance:
    """Maintains a store a little at a time. After a change it starts over, once nothing has changed for a while."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._seq = -1
        """The number of the last change that was seen."""
        self._quiet_since = clock()
        self._steps: Iterator[None] | None = None

    def continue_briefly(self) -> None:
        """Do some steps, if nothing has changed for long enough and there is anything to do."""
        now = self._clock()
        if (seq := self._store.changes.last_seq()) != self._seq:
            self._seq, self._quiet_since = seq, now
            self._steps = Maintenance(self._store).steps()
        if self._steps is None or now - self._quiet_since < _QUIET_SECONDS:
            return
        for _ in self._steps:
            if self._clock() - now >= _STEPS_SECONDS:
                return
        self._steps = None
