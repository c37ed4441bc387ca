"""Sessions as tables in Apache Spark: a data source named `unspool`. Needs `unspool[spark]`.

>>> import unspool.spark
>>> unspool.spark.register(spark)  # doctest: +SKIP
>>> spark.read.format("unspool").option("table", "messages").load("/homes/*")  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..data.extra import load_package

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INSTALL = "'unspool[spark]'"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Register the data source in a Spark session, and enable filter pushdown for Python data sources."""
    load_package("pyspark.sql.datasource", INSTALL)
    from pyspark.errors import AnalysisException

    from .source import UnspoolDataSource

    spark.conf.set(_PUSHDOWN, "true")
    try:
        spark.dataSource.register(UnspoolDataSource)
    except AnalysisException as error:
        # Spark 4.0 raises this if it has already found `pyspark_unspool`; later versions only warn.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


def table_of(everything: DataFrame, table: str) -> DataFrame:
    """Return one table of a data frame with all tables, for example to write each one but read the sessions only once.

    >>> everything = spark.read.format("unspool").option("table", "all").load("/homes/*").persist()  # doctest: +SKIP
    >>> unspool.spark.table_of(everything, "messages").write.parquet("/tables/messages")  # doctest: +SKIP
    """
    from .packed import unpack

    return unpack(everything, table)


def read_lake(spark: SparkSession, location: str, table: str, *, as_of: int | None = None) -> DataFrame:
    """Return a table of a lake as of its last snapshot, or of an earlier one.

    Spark itself reads the Parquet files of the snapshot. The workers need neither the Delta Lake package for Spark nor
    unspool.
    """
    from .lake import read_lake

    return read_lake(spark, location, table, as_of)
