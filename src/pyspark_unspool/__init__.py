"""Spark looks for data sources in installed packages whose names begin with `pyspark_`."""

from __future__ import annotations

from unspool.spark.source import UnspoolDataSource as DefaultSource

__all__ = ["DefaultSource"]
