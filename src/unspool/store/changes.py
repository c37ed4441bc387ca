"""The change log (table `journal`): changes to the store, in order. Live views read it."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import msgspec

from .database import Database
from .rows import Change

_KEPT = 100_000
"""The number of entries to retain."""


class ChangeLog:
    """Numbered changes; `ingest.change_diff` documents the kinds and their data."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, kind: str, session: int | None, **data: object) -> None:
        """Add an entry."""
        self._database.append_change((time.time(), kind, session, json.dumps(data)))

    def since(self, seq: int = 0, limit: int = 1000) -> list[Change]:
        """The entries after a number; `first_seq` shows whether some of them were pruned."""
        sql = "SELECT seq, at, kind, session, data FROM journal WHERE seq > ? ORDER BY seq LIMIT ?"
        return [
            Change(
                seq=number,
                at=datetime.fromtimestamp(at, UTC),
                kind=kind,
                session=session,
                data=msgspec.Raw(data.encode()),
            )
            for number, at, kind, session, data in self._database.rows(sql, seq, limit)
        ]

    def last_seq(self) -> int:
        """The number of the newest entry, or 0."""
        return int(self._database.rows("SELECT coalesce(max(seq), 0) FROM journal")[0][0])

    def first_seq(self) -> int:
        """The number of the oldest retained entry, or 0. A reader that has not seen the one before missed some."""
        return int(self._database.rows("SELECT coalesce(min(seq), 0) FROM journal")[0][0])

    def prune(self, keep: int = _KEPT) -> None:
        """Delete the oldest entries. Numbers are never reused."""
        last = self.last_seq()
        if self.first_seq() <= last - keep:
            self._database.rows("DELETE FROM journal WHERE seq <= ?", last - keep)
