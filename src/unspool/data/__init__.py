"""Sessions as tables: Arrow, Parquet, SQL, a lake, Spark. Needs `unspool[data]`."""
