"""Deferred maintenance of a store: it makes the store smaller and searches faster, and changes nothing else.

It runs in small steps, each in its own transaction, while unspool is idle. If it is interrupted, the next run
continues.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from .repacking import Repacking
from .store import Store

_QUIET_SECONDS = 3600.0
"""A file that has changed within this time may soon change again, so it is not packed as small as possible yet."""


class Maintenance:
    """Maintains one store."""

    def __init__(self, store: Store, *, everything: bool = False) -> None:
        """With `everything`, even files that have just changed are packed as small as possible."""
        self._store = store
        self._everything = everything

    def steps(self) -> Iterator[None]:
        """Do all maintenance that is worth doing, step by step."""
        yield from self._move_texts()
        quiet_since = None if self._everything else int((time.time() - _QUIET_SECONDS) * 1e9)
        yield from Repacking(self._store, quiet_since).steps()
        yield from self._store.database.compact()

    def run(self, seconds: float | None = None) -> None:
        """Do all steps, or those that begin within `seconds`."""
        until = None if seconds is None else time.monotonic() + seconds
        for _ in self.steps():
            if until is not None and time.monotonic() > until:
                return

    def _move_texts(self) -> Iterator[None]:
        """Give indexed texts ids that match their ranks: earlier versions numbered them in the order of insertion."""
        store = self._store
        condition = store.database.words.outdated
        if condition is None:
            return
        # All at once: the texts of damaged messages stay outdated.
        for (session,) in store.database.rows(f"SELECT DISTINCT session FROM part WHERE {condition} ORDER BY session"):
            with store.transaction():
                store.texts.move(session, store.messages.read(session))
            yield
