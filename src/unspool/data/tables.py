"""Streams the tables of sessions as Arrow record batches."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from ..core import model as m
from ..core.errors import UnspoolError
from ..core.session import Session
from ..library import SessionReading
from ..store import Store
from .batches import Report, make_batch
from .extra import load_package
from .rows import SessionRows, key_of
from .schema import TABLES, Column, Table, arrow_schema, find_table
from .source_locations import Key
from .sources import InMemory, TableSource, Unreadable, find_sources
from .usage_cost import make_cost_of

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

BATCH_ROWS = 1 << 14
BATCH_BYTES = 8 << 20
"""Bytes of logs to read before their rows become batches."""
_WITH_TEXTS = frozenset({"blocks", "messages", "tool_calls"})
"""Tables that need much memory for a few rows."""
_FEW_ROWS = 500
"""Up to this number of rows, a table waits for `_WAITING_BYTES`: a batch takes about as long as its first 500 rows."""
_WAITING_BYTES = 4 * BATCH_BYTES
_END = object()


def _without_gc(batches: Iterable[TableBatch | None]) -> Iterator[TableBatch]:
    """Make batches while the garbage collector is off: rows have no cycles, but looking for them takes time.

    It is on while the caller uses a batch, and for a moment at every None.
    """
    iterator = iter(batches)
    while True:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            batch = next(iterator, _END)
        finally:
            if was_enabled:
                gc.enable()
        if batch is _END:
            return
        if batch is not None:
            yield cast(TableBatch, batch)


class TableBatch(NamedTuple):
    """Some rows of one table."""

    table: str
    batch: pa.RecordBatch


class Batcher:
    """Turns sessions into record batches."""

    def __init__(self, names: Iterable[str]) -> None:
        self._tables = {name: find_table(name) for name in names}
        self._rows = SessionRows(self._tables.values(), make_cost_of())
        self._weight = 0
        """Bytes of logs since the last flush."""
        self._waiting = 0
        """Bytes of logs since the last flush of all tables."""

    def add(self, reading: SessionReading) -> Iterator[TableBatch]:
        """Add a session, and yield batches whenever there are enough rows."""
        for _ in self._rows.add(reading, self._pieces(reading.messages)):
            if self._weight > BATCH_BYTES:
                yield from self._flush_some()
        if any(len(pending) > BATCH_ROWS for pending in self._rows.pending.values()):
            yield from self._flush_some()

    def _pieces(self, messages: Iterable[m.Message]) -> Iterator[list[m.Message]]:
        """Group messages into pieces that are large enough for a batch. The last one may be smaller."""
        piece = []
        for message in messages:
            piece.append(message)
            self._weight += message.source.length
            if self._weight > BATCH_BYTES:
                yield piece
                piece = []
        if piece:
            yield piece

    def add_unreadable(self, session: Unreadable, reason: str = "unreadable") -> None:
        """Add a problem for a session that is not in the tables."""
        location = self._rows.locations.of_file((session.agent, session.session, None), session.file)
        self._rows.add_problem(location, reason, session.reason)

    def flush(self) -> Iterator[TableBatch]:
        """Yield all pending rows as batches."""
        return self._flush(self._tables)

    def _flush_some(self) -> Iterator[TableBatch]:
        """Yield most pending rows as batches; some tables with few rows wait for more."""
        self._waiting += self._weight
        self._weight = 0
        if self._waiting > _WAITING_BYTES:
            self._waiting = 0
            return self.flush()
        pending = self._rows.pending
        return self._flush(name for name in self._tables if name in _WITH_TEXTS or len(pending[name]) > _FEW_ROWS)

    def _flush(self, names: Iterable[str]) -> Iterator[TableBatch]:
        locations = self._rows.locations.to_table()
        made = []
        # `problems` comes last, because a value that has to be replaced in another table adds a row to it.
        for name in sorted(names, key=lambda name: name == "problems"):
            pending = self._rows.pending[name]
            if len(pending):
                table = self._tables[name]
                made.append(TableBatch(name, make_batch(table, pending.take(), locations, self._report(table))))
        waiting = [pending for pending in self._rows.pending.values() if len(pending)]
        numbers = self._rows.locations.clear(number for pending in waiting for number in pending.locations)
        for pending in waiting:
            pending.renumber(numbers)
        # The rows are released before the caller gets a batch: the garbage collector is on then, and would visit them.
        yield from made

    def _report(self, table: Table) -> Report:
        def report(location: int, column: Column, what: str) -> None:
            self._rows.add_problem(location, "table-value", f"{table.name}.{column.name}: {what}")

        return report


class Tables:
    """The tables of a set of sessions. Every method reads the sessions again, as a stream."""

    def __init__(self, sources: Iterable[TableSource], *, wanted: Callable[[Key], bool] | None = None) -> None:
        """`wanted` selects sessions by agent, session and day; by default, all sessions are included."""
        load_package("pyarrow")
        self._sources = list(sources)
        self._wanted = wanted

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tables."""
        return tuple(TABLES)

    def schema(self, name: str) -> pa.Schema:
        """Return the Arrow schema of a table."""
        return arrow_schema(name)

    def batches(self, *names: str) -> Iterator[TableBatch]:
        """Yield the record batches of these tables, by default of all, in one pass over the sessions."""
        return _without_gc(self._batches(names or tuple(TABLES)))

    def _batches(self, names: Iterable[str]) -> Iterator[TableBatch | None]:
        """Yield the batches, and None after a session that has no rows."""
        batcher = Batcher(names)
        seen: set[tuple[str, str]] = set()
        for source in self._sources:
            for item in source.readings():
                if isinstance(item, Unreadable):
                    batcher.add_unreadable(item)
                    yield None
                    continue
                key = agent, session, _ = key_of(item.head.info)
                file = item.head.info.files[0].path if item.head.info.files else None
                if (agent, session) in seen:
                    why = "another file has a session of the same id, which is in the tables instead"
                    batcher.add_unreadable(Unreadable(agent, session, file, why), "duplicate-session")
                    yield None
                    continue
                seen.add((agent, session))
                if self._wanted is not None and not self._wanted(key):
                    yield None
                    continue
                try:
                    yield from batcher.add(item)
                except UnspoolError as error:
                    # Long logs are read while their messages are consumed, so an error can occur here.
                    batcher.add_unreadable(Unreadable(agent, session, file, str(error)))
        yield from batcher.flush()
        yield from batcher.flush()

    def reader(self, name: str) -> pa.RecordBatchReader:
        """Return the record batches of one table as a stream, for any program that reads Arrow."""
        arrow = load_package("pyarrow")
        schema = arrow_schema(name)
        found: pa.RecordBatchReader = arrow.RecordBatchReader.from_batches(
            schema, (batch for _, batch in self.batches(name))
        )
        return found

    def to_arrow(self, name: str) -> pa.Table:
        """Return a whole table in memory."""
        # Each batch has its own dictionaries.
        table: pa.Table = self.reader(name).read_all().unify_dictionaries()
        return table

    def to_polars(self, name: str) -> pl.DataFrame:
        """Return a whole table as a Polars data frame."""
        polars = load_package("polars", "polars")
        frame: pl.DataFrame = polars.from_arrow(self.to_arrow(name))
        return frame

    def to_pandas(self, name: str) -> pd.DataFrame:
        """Return a whole table as a pandas data frame."""
        load_package("pandas", "pandas")
        frame: pd.DataFrame = self.to_arrow(name).to_pandas()
        return frame

    def duckdb(self, *names: str) -> duckdb.DuckDBPyConnection:
        """Return a connection to a DuckDB database in memory with these tables, by default with all."""
        from .sql import load_into

        connection: duckdb.DuckDBPyConnection = load_package("duckdb").connect()
        load_into(connection, self, names or tuple(TABLES))
        return connection


def tables(*sources: str | Path | Store | Session) -> Tables:
    """Return the tables of the sessions in your home directory, or in these homes, folders, files and stores.

    Needs the extra `unspool[data]`.

    >>> import unspool
    >>> tables = unspool.tables(unspool.samples())
    >>> tables.to_arrow("tool_calls").num_rows > 10
    True
    """
    return Tables(find_sources(sources))


def session_tables(session: Session) -> dict[str, pa.Table]:
    """Return all tables of one session."""
    arrow = load_package("pyarrow")
    batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in TABLES}
    for name, batch in Tables([InMemory([session])]).batches():
        batches[name].append(batch)
    return {name: arrow.Table.from_batches(found, arrow_schema(name)) for name, found in batches.items()}
