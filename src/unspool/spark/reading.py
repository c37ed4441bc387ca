"""Reads a partition as record batches. Runs in the worker processes of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..data.extra import load_package
from ..data.schema import arrow_schema
from ..data.sources import OnDisk, Unreadable
from ..data.tables import Tables
from ..library import Library, SessionReading
from .filters import KeyFilters
from .homes import Homes, open_homes
from .options import ALL
from .packed import pack
from .planning import Partition

if TYPE_CHECKING:
    import pyarrow as pa


def read_partition(
    partition: Partition, table: str, columns: Sequence[str], filters: KeyFilters
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the sessions in a partition."""
    with open_homes(partition.remotes) as homes:
        refs = [homes.here(ref) for ref in partition.sessions]
        homes.list_around(refs)
        tables = Tables([_Checked(partition, OnDisk(Library.empty(), refs), homes)], wanted=filters.match)
        if table == ALL:
            for name, batch in tables.batches():
                yield pack(name, _with_urls(batch.cast(arrow_schema(name, plain=True)), homes)).select(columns)
            return
        plain = arrow_schema(table, plain=True)
        schema = load_package("pyarrow").schema([plain.field(name) for name in columns])
        for _, batch in tables.batches(table):
            yield _with_urls(batch.select(columns).cast(schema), homes)


class _Checked:
    """Sessions of a partition. If a remote file system failed, it raises an error, so that Spark retries the task."""

    def __init__(self, partition: Partition, origin: OnDisk, homes: Homes) -> None:
        self._partition = partition
        self._origin = origin
        self._homes = homes

    def readings(self) -> Iterator[SessionReading | Unreadable]:
        """Yield each session, or an `Unreadable` with the reason."""
        yield from self._partition.unreadable
        for reading in self._origin.readings():
            self._homes.check()
            yield reading
        self._homes.check()


def _with_urls(batch: pa.RecordBatch, homes: Homes) -> pa.RecordBatch:
    """Return the batch with the URLs of files instead of their paths in a mirror."""
    arrow, compute = load_package("pyarrow"), load_package("pyarrow.compute")
    for local, url in homes.url_prefixes:
        columns: list[Any] = [
            compute.replace_substring(column, local, url) if arrow.types.is_string(column.type) else column
            for column in batch.columns
        ]
        batch = arrow.RecordBatch.from_arrays(columns, schema=batch.schema)
    return batch
