"""The store: the parts that read and write one database."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING

from .annotations import Annotations
from .archive import FileArchive
from .blocks import Blocks
from .changes import ChangeLog
from .chunks import Chunks
from .database import Database
from .events import Events
from .forgotten import ForgottenSessions
from .messages import StoredMessages
from .sessions import Sessions
from .text_index import TextIndex
from .usage_rows import UsageTable

if TYPE_CHECKING:
    from .search import Search


class Store:
    """All sessions of one machine, or of a team."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.chunks = Chunks(database)
        self.blocks = Blocks(database, self.chunks)
        self.files = FileArchive(database, self.chunks, self.blocks)
        self.messages = StoredMessages(database, self.blocks)
        self.texts = TextIndex(database)
        self.usage = UsageTable(database)
        self.sessions = Sessions(database, self.files, self.messages, self.blocks, self.texts, self.usage)
        self.events = Events(database)
        self.changes = ChangeLog(database)
        self.forgotten = ForgottenSessions(database)

    @cached_property
    def search(self) -> Search:
        """The word search, loaded on first use: listing sessions does not need it."""
        from .search import Search

        return Search(self.database, self.sessions, self.messages)

    @property
    def annotations(self) -> Annotations:
        """The pins, notes and tags."""
        return Annotations(self.database)

    @property
    def machine(self) -> int:
        """The row id of this machine."""
        return self.database.machine

    @property
    def location(self) -> str:
        """The path or URL that `open_store` accepts."""
        return self.database.location

    @property
    def is_lost(self) -> bool:
        """Whether the connection is broken and the store has to be opened again."""
        return self.database.is_lost

    def transaction(self) -> AbstractContextManager[None]:
        """Commit everything that is written in the block, or nothing."""
        return self.database.transaction()

    def snapshot(self) -> AbstractContextManager[None]:
        """Make all reads in the block see the same state."""
        return self.database.snapshot()

    def exclusive(self, patience: float | None = None) -> AbstractContextManager[None]:
        """Hold the lock that lets only one process at a time update this machine's sessions.

        Wait if another process holds it, and raise `BusyError` after `patience` seconds (by default, ten minutes).
        """
        return self.database.exclusive(patience)

    def close(self) -> None:
        """Close the database."""
        self.database.close()
