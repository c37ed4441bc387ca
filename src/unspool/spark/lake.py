"""Reads the tables of a lake in Spark, as of the same snapshot."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..data.lake import Lake
from ..data.schema import arrow_schema, find_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WILDCARD = re.compile(r"[*?{}\[\]\\]")


def read_lake(spark: SparkSession, location: str, table: str, as_of: int | None) -> DataFrame:
    """Return a table, read from the Parquet files of the snapshot."""
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = arrow_schema(find_table(table).name, plain=True)
    lake = Lake(location, as_of=as_of)
    files = lake.files(table)
    schema = from_arrow_schema(columns)
    if not files:
        return spark.createDataFrame([], schema)
    # Spark needs Hadoop's scheme for S3, and expands wildcards.
    names = [_WILDCARD.sub(r"\\\g<0>", name.replace("s3://", "s3a://", 1)) for name in files]
    base = f"{lake.location.rstrip('/')}/{table}".replace("s3://", "s3a://", 1)
    found = spark.read.schema(schema).option("basePath", base).parquet(*names)
    return found.select(columns.names)
