"""Work on a store that can wait: it makes the store smaller and searches faster, and changes nothing else.

It is done in small steps, each in a transaction of its own, whenever nothing else is to be done. If it is interrupted,
the next run continues.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from .repacking import Repacking
from .store import Store

_QUIET_SECONDS = 3600.0
"""How long a file has not changed before it is packed as small as possible: soon it may change again."""


class Maintenance:
    """Maintains one store."""

    def __init__(self, store: Store, *, everything: bool = False) -> None:
        """With `everything`, also files that have just changed are packed as small as possible."""
        self._store = store
        self._everything = everything

    def steps(self) -> Iterator[None]:
        """Do all that is worth doing, step by step."""
        yield from self._move_texts()
        quiet_since = None if self._everything else int((time.time() - _QUIET_SECONDS) * 1e9)
        yield from Repacking(self._store, quiet_since).steps()
        yield from self._store.database.compact()

    def run(self, seconds: float | None = None) -> None:
        """Do all steps, or those that begin within some time."""
        until = None if seconds is None else time.monotonic() + seconds
        for _ in self.steps():
            if until is not None and time.monotonic() > until:
                return

    def _move_texts(self) -> Iterator[None]:
        """Give indexed texts the ids of their ranks: earlier versions numbered them in the order of insertion."""
        store = self._store
        condition = store.database.words.outdated
        if condition is None:
            return
        sql = f"SELECT session FROM part WHERE {condition} LIMIT 1"
        skipped: set[int] = set()
        while found := store.database.rows(sql):
            ((session,),) = found
            if session in skipped:
                return
            skipped.add(session)
            with store.transaction():
                store.texts.move(session, store.messages.read(session))
            yield
