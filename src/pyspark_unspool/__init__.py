"""Lets Spark find the data source: it searches installed packages whose names start with `pyspark_`."""

from __future__ import annotations

from unspool.spark.source import UnspoolDataSource as DefaultSource

__all__ = ["DefaultSource"]
