"""The tables of some sessions, as a stream of Arrow record batches."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from ..core import model as m
from ..core.errors import UnspoolError
from ..core.session import Session
from ..library import SessionReading
from ..store import Store
from .batches import Report, make_batch
from .extra import load_package
from .places import Key
from .rows import SessionRows, key_of
from .schema import TABLES, Column, Table, arrow_schema, find_table
from .sources import InMemory, Origin, Unreadable, find_origins
from .usage_cost import make_cost_of

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

BATCH_ROWS = 1 << 14
BATCH_BYTES = 8 << 20
"""Bytes of logs that are read before the rows made of them become batches."""
_END = object()
_T = TypeVar("_T")


@contextmanager
def _without_gc() -> Iterator[None]:
    """Do not look for cycles: rows have none, but there are so many values that this would take a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _each_without_gc(items: Iterable[_T]) -> Iterator[_T]:
    """Items that are made without looking for cycles. What uses them does as before, so that cycles do not pile up."""
    iterator = iter(items)
    while True:
        with _without_gc():
            item = next(iterator, _END)
        if item is _END:
            return
        yield cast(_T, item)


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

    def add(self, reading: SessionReading) -> Iterator[TableBatch]:
        """Add a session; yields batches whenever there are enough rows."""
        for _ in _each_without_gc(self._rows.add(reading, self._pieces(reading.messages))):
            if self._weight > BATCH_BYTES:
                yield from self.flush()
        if any(len(pending) > BATCH_ROWS for pending in self._rows.pending.values()):
            yield from self.flush()

    def _pieces(self, messages: Iterable[m.Message]) -> Iterator[list[m.Message]]:
        """Messages in pieces, each of which is enough for a batch; the last may be smaller."""
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
        """Report a session that is not in the tables."""
        place = self._rows.places.of_file((session.agent, session.session, None), session.file)
        self._rows.add_problem(place, reason, session.reason)

    def flush(self) -> Iterator[TableBatch]:
        """All rows so far."""
        self._weight = 0
        places = self._rows.places.to_table()
        # A value that has to be replaced adds a row to the last table.
        for name in sorted(self._tables, key=lambda name: name == "problems"):
            pending = self._rows.pending[name]
            if len(pending):
                with _without_gc():
                    batch = make_batch(self._tables[name], pending.take(), places, self._report(self._tables[name]))
                yield TableBatch(name, batch)
        if not any(map(len, self._rows.pending.values())):
            self._rows.places.clear()

    def _report(self, table: Table) -> Report:
        def report(place: int, column: Column, what: str) -> None:
            self._rows.add_problem(place, "table-value", f"{table.name}.{column.name}: {what}")

        return report


class Tables:
    """The tables of some sessions. Every method reads the sessions again, as a stream."""

    def __init__(self, origins: Iterable[Origin], *, wanted: Callable[[Key], bool] | None = None) -> None:
        """`wanted` tells by agent, session and day which sessions have rows; without it, all have."""
        load_package("pyarrow")
        self._origins = list(origins)
        self._wanted = wanted

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tables."""
        return tuple(TABLES)

    def schema(self, name: str) -> pa.Schema:
        """The Arrow schema of a table."""
        return arrow_schema(name)

    def batches(self, *names: str) -> Iterator[TableBatch]:
        """Record batches of some tables, or of all, in one pass over the sessions."""
        batcher = Batcher(names or TABLES)
        seen: set[tuple[str, str]] = set()
        for origin in self._origins:
            for item in _each_without_gc(origin.readings()):
                if isinstance(item, Unreadable):
                    batcher.add_unreadable(item)
                    continue
                key = agent, session, _ = key_of(item.head.info)
                file = item.head.info.files[0].path if item.head.info.files else None
                if (agent, session) in seen:
                    why = "another file has a session of the same id, which is in the tables instead"
                    batcher.add_unreadable(Unreadable(agent, session, file, why), "duplicate-session")
                    continue
                seen.add((agent, session))
                if self._wanted is not None and not self._wanted(key):
                    continue
                try:
                    yield from batcher.add(item)
                except UnspoolError as error:
                    # The rest of a long log, which is read as its messages are needed.
                    batcher.add_unreadable(Unreadable(agent, session, file, str(error)))
        yield from batcher.flush()
        yield from batcher.flush()

    def reader(self, name: str) -> pa.RecordBatchReader:
        """A stream of the record batches of one table, for any program that reads Arrow."""
        arrow = load_package("pyarrow")
        schema = arrow_schema(name)
        found: pa.RecordBatchReader = arrow.RecordBatchReader.from_batches(
            schema, (batch for _, batch in self.batches(name))
        )
        return found

    def to_arrow(self, name: str) -> pa.Table:
        """A whole table in memory."""
        # Batches have dictionaries of their own.
        table: pa.Table = self.reader(name).read_all().unify_dictionaries()
        return table

    def to_polars(self, name: str) -> pl.DataFrame:
        """A whole table as a Polars data frame."""
        polars = load_package("polars", "polars")
        frame: pl.DataFrame = polars.from_arrow(self.to_arrow(name))
        return frame

    def to_pandas(self, name: str) -> pd.DataFrame:
        """A whole table as a pandas data frame."""
        load_package("pandas", "pandas")
        frame: pd.DataFrame = self.to_arrow(name).to_pandas()
        return frame

    def duckdb(self, *names: str) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection with some tables, or with all."""
        from .sql import load_into

        connection: duckdb.DuckDBPyConnection = load_package("duckdb").connect()
        load_into(connection, self, names or tuple(TABLES))
        return connection


def tables(*places: str | Path | Store | Session) -> Tables:
    """The tables of the sessions in your home directory, or in home directories, folders, files and stores.

    Needs the extra `unspool[data]`.

    >>> import unspool
    >>> tables = unspool.tables(unspool.samples())
    >>> tables.to_arrow("tool_calls").num_rows > 10
    True
    """
    return Tables(find_origins(places))


def session_tables(session: Session) -> dict[str, pa.Table]:
    """All tables of one session."""
    arrow = load_package("pyarrow")
    batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in TABLES}
    for name, batch in Tables([InMemory([session])]).batches():
        batches[name].append(batch)
    return {name: arrow.Table.from_batches(found, arrow_schema(name)) for name, found in batches.items()}
