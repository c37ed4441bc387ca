"""All tables in one data frame: rows of different schemas, packed as serialized record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..core.errors import UsageError
from ..data.extra import load_package
from ..data.schema import arrow_schema, find_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def packed_schema() -> pa.Schema:
    """Return the schema of packed rows: the name of a table, and some of its rows as an Arrow stream."""
    arrow = load_package("pyarrow")
    schema: pa.Schema = arrow.schema(
        [("table", arrow.string()), ("row_count", arrow.int64()), ("rows", arrow.binary())]
    )
    return schema


def pack(table: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Pack rows of a table into one row."""
    arrow = load_package("pyarrow")
    ipc = load_package("pyarrow.ipc")
    sink = arrow.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema, options=ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    columns = {"table": [table], "row_count": [batch.num_rows], "rows": [sink.getvalue().to_pybytes()]}
    packed: pa.RecordBatch = arrow.RecordBatch.from_pydict(columns, schema=packed_schema())
    return packed


def unpack(everything: DataFrame, table: str) -> DataFrame:
    """Return the rows of one table."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if everything.columns != packed_schema().names:
        raise UsageError('this data frame does not have all tables; load it with .option("table", "all")')
    schema = from_arrow_schema(arrow_schema(find_table(table).name, plain=True))
    return everything.where(everything["table"] == table).select("rows").mapInArrow(unpack_batches, schema)


def unpack_batches(packed: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches in packed rows."""
    ipc = load_package("pyarrow.ipc")
    for batch in packed:
        for value in batch.column("rows"):
            yield from ipc.open_stream(value.as_buffer())
