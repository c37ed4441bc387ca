"""The classes of Spark's Python data source API. The other modules do the work, mostly independently of Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from ..core.errors import UsageError
from ..data.schema import arrow_schema
from .filters import KeyFilters, make_filters
from .options import ALL, Options, parse_options
from .packed import packed_schema
from .plan import plan_changes, plan_everything
from .planning import Partition
from .reading import read_partition
from .stream_offsets import find_latest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class UnspoolDataSource(DataSource):
    """Sessions of coding agents as tables."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return "unspool"

    def schema(self) -> StructType:
        """Return all columns of the table."""
        return _spark_schema(parse_options(self.options))

    def reader(self, schema: StructType) -> UnspoolReader:
        """Return a reader of all sessions."""
        options = parse_options(self.options)
        # Spark rejects a reader with `pushFilters` unless pushdown is enabled. The setting is not visible here, so this
        # checks for the worker that Spark runs only in that case.
        takes_filters = _PUSHDOWN_WORKER in sys.modules or _PUSHDOWN_WORKER in sys.orig_argv
        return (FilteredReader if takes_filters else UnspoolReader)(options, _checked_columns(options, schema))

    def streamReader(self, schema: StructType) -> UnspoolStreamReader:  # noqa: N802 - Spark's name
        """Return a reader of sessions as they are written."""
        options = parse_options(self.options)
        return UnspoolStreamReader(options, _checked_columns(options, schema))


class UnspoolReader(DataSourceReader):
    """Reads one table of all sessions."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._filters = KeyFilters()

    def partitions(self) -> list[InputPartition]:
        """Return the input of each task."""
        return [InputPartition(each) for each in plan_everything(self._options, self._filters)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a partition."""
        found: Partition = partition.value if partition.value is not None else Partition()
        return read_partition(found, self._options.table, self._columns, self._filters)


class FilteredReader(UnspoolReader):
    """A reader that accepts filters, which Spark 4.1 and later push down."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Use filters on agent, session and day. All are returned, so Spark applies them again at little cost."""
        self._filters = make_filters(filters)
        return filters


class UnspoolStreamReader(DataSourceStreamReader):
    """Reads one table of the sessions whose logs are new or have changed, with all rows of each session."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset before all data."""
        return {}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - as in Spark 4.0
        """Return the offset after all current data."""
        return find_latest(self._options)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the input of each task of a batch."""
        return [InputPartition(each) for each in plan_changes(self._options, start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a partition."""
        return read_partition(partition.value, self._options.table, self._columns, KeyFilters())


def _spark_schema(options: Options) -> StructType:
    return from_arrow_schema(packed_schema() if options.table == ALL else arrow_schema(options.table, plain=True))


def _checked_columns(options: Options, schema: StructType) -> tuple[str, ...]:
    """Return the names of the requested columns; raises UsageError for an unknown column or a wrong type."""
    known = {field.name: field.dataType for field in _spark_schema(options).fields}
    for field in schema.fields:
        if field.name not in known:
            raise UsageError(f"the table {options.table!r} has no column {field.name!r}; it has {', '.join(known)}")
        if field.dataType != known[field.name]:
            wanted, given = known[field.name].simpleString(), field.dataType.simpleString()
            raise UsageError(
                f"the column {field.name!r} of the table {options.table!r} is of type {wanted}, not {given}"
            )
    return tuple(schema.fieldNames())
