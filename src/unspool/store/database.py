"""The interface between the store and a database.

Everything else in `store/` writes SQL that runs on every supported database. The differences between them (bulk
inserts, locking, full-text search, migrations) are handled in `backends/`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from .rows import NOTHING

if TYPE_CHECKING:
    from ..search.query import Node

Row = Sequence[Any]
_MOST_IDS = 500
"""The largest number of values in one statement."""


class Database(ABC):
    """One connection to a database with sessions."""

    machine: int
    """The row id of this machine: a database may contain the sessions of several."""
    location: str
    """The path or URL that `open_store` accepts."""
    read_only: bool = False
    is_shared: bool = False
    """Whether other machines write to it as well. If so, each maintains only its own sessions."""
    bytewise = ""
    """SQL to append to a text expression so that it is compared by its bytes."""
    names: NameTable
    words: WordIndex

    def may_change(self, session: int) -> bool:  # noqa: ARG002 - a database without roles allows everything
        """Whether a session may be changed or removed through this connection."""
        return True

    @abstractmethod
    def rows(self, sql: str, *values: object) -> list[Row]:
        """Run a statement and return its rows. `?` is the placeholder for a value."""

    @abstractmethod
    def iterate(self, sql: str, *values: object) -> Generator[Row]:
        """Run a query and yield its rows as they are needed. Close the generator if some may remain unread."""

    @abstractmethod
    def insert(self, table: str, columns: str, rows: Iterable[Row], sparse: str = "") -> None:
        """Insert many rows. In the columns listed in `sparse`, `NOTHING` is stored as NULL."""

    @abstractmethod
    def append_change(self, row: Row) -> None:
        """Insert a row into the change log.

        Readers continue from the last number they saw, so a number must never become visible after a higher one.
        """

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Commit everything that is written in the block, or nothing."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Make all reads in the block see the same state of the database."""

    @abstractmethod
    def exclusive(self, patience: float | None = None) -> AbstractContextManager[None]:
        """Hold the lock that lets only one process at a time update this machine's sessions.

        Wait if another process holds it, and raise `BusyError` after `patience` seconds (by default, ten minutes).
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def compact(self) -> Iterator[None]:
        """Release unused space, step by step. Database servers do so on their own."""
        yield from ()

    @abstractmethod
    def optimize(self) -> None:
        """Run the database's own maintenance."""

    def check(self) -> list[str]:
        """Return the faults of the database itself, as opposed to those of the data in it."""
        return []

    @property
    def is_lost(self) -> bool:
        """Whether the connection is broken and a new one has to be opened."""
        return False


class MatchIndex(NamedTuple):
    """The parts of a statement that selects rows of `part`."""

    tables: str
    condition: str
    values: list[object]
    position: str
    """The SQL expression to sort by: the id of a row, or the first id of its bucket."""


class WordIndex(ABC):
    """The full-text index. Its entries have the ids of rows in the table `part`."""

    outdated: str | None = None
    """An SQL condition for rows of `part` that need new ids; None if ids are not in the order of ranks."""

    @abstractmethod
    def allocate_ids(self, buckets: Sequence[int]) -> list[int]:
        """Reserve an id in each of the given buckets of the ranking. Ids in the same bucket increase."""

    @abstractmethod
    def add(self, ids: Sequence[int], texts: Sequence[str | bytes], buckets: Sequence[int]) -> None:
        """Index texts under ids that were allocated in these buckets; bytes are texts in UTF-8."""

    @abstractmethod
    def remove(self, rows: list[tuple[int, str]]) -> None:
        """Remove texts, given with their ids."""

    @abstractmethod
    def remove_unknown(self, ids: list[int]) -> None:
        """Remove texts whose content is no longer available. This may take as long as reading the whole index."""

    @abstractmethod
    def index(self, node: Node | None) -> MatchIndex:
        """Return the SQL that selects the rows of `part` that match a query; all rows without one."""

    def in_order(self, node: Node | None) -> Iterator[MatchIndex]:
        """Yield SQL that selects the same rows in steps. The rows of a step have higher positions than later ones."""
        yield self.index(node)


class NameTable:
    """Names of tools, models and files, stored once and referred to by number."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ids: dict[str, int] = {}
        self.reset()

    def reset(self) -> None:
        """Forget cached ids: a transaction that was rolled back may have created some of them."""
        self._ids = {"": NOTHING}

    def ids(self, names: set[str]) -> dict[str, int]:
        """The ids of at least these names; new names are added. The id of the empty name is `NOTHING`."""
        for name in sorted(name for name in names if name not in self._ids):
            self._database.rows("INSERT INTO name (text) VALUES (?) ON CONFLICT (text) DO NOTHING", name)
            ((id,),) = self._database.rows("SELECT id FROM name WHERE text = ?", name)
            self._ids[name] = int(id)
        return self._ids

    def texts(self, ids: Iterable[int]) -> dict[int, str]:
        """The names with the given ids; unknown ids are left out."""
        wanted = sorted(set(ids))
        found: dict[int, str] = {}
        for first in range(0, len(wanted), _MOST_IDS):
            some = wanted[first : first + _MOST_IDS]
            sql = f"SELECT id, text FROM name WHERE id IN ({', '.join('?' * len(some))})"
            found |= {int(id): text for id, text in self._database.rows(sql, *some)}
        return found
