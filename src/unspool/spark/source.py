"""The data source that Spark sees. Everything that has nothing to do with Spark is in the other modules."""

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
        """The name for `spark.read.format`."""
        return "unspool"

    def schema(self) -> StructType:
        """All columns of the table."""
        return _spark_schema(parse_options(self.options))

    def reader(self, schema: StructType) -> UnspoolReader:
        """Read all sessions."""
        options = parse_options(self.options)
        # Spark refuses a reader that takes filters unless they are enabled, which only shows in what it runs here.
        takes_filters = _PUSHDOWN_WORKER in sys.modules or _PUSHDOWN_WORKER in sys.orig_argv
        return (FilteredReader if takes_filters else UnspoolReader)(options, _checked_columns(options, schema))

    def streamReader(self, schema: StructType) -> UnspoolStreamReader:  # noqa: N802 - Spark's name
        """Read sessions as they are written."""
        options = parse_options(self.options)
        return UnspoolStreamReader(options, _checked_columns(options, schema))


class UnspoolReader(DataSourceReader):
    """Reads one table of all sessions."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._filters = KeyFilters()

    def partitions(self) -> list[InputPartition]:
        """What each task reads."""
        return [InputPartition(each) for each in plan_everything(self._options, self._filters)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        found: Partition = partition.value if partition.value is not None else Partition()
        return read_partition(found, self._options.table, self._columns, self._filters)


class FilteredReader(UnspoolReader):
    """The same for a query with filters, which Spark 4.1 and later pass on."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Use filters on agent, session and day. Spark applies all of them again, which costs little."""
        self._filters = make_filters(filters)
        return filters


class UnspoolStreamReader(DataSourceStreamReader):
    """Reads one table of the sessions whose logs are new or have changed, each with all of its rows."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Before everything."""
        return {}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - as in Spark 4.0
        """After everything that is there now."""
        return find_latest(self._options)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """What each task of a batch reads."""
        return [InputPartition(each) for each in plan_changes(self._options, start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        return read_partition(partition.value, self._options.table, self._columns, KeyFilters())


def _spark_schema(options: Options) -> StructType:
    return from_arrow_schema(packed_schema() if options.table == ALL else arrow_schema(options.table, plain=True))


def _checked_columns(options: Options, schema: StructType) -> tuple[str, ...]:
    """The columns that are wanted; raises UsageError if there are no such columns."""
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
