"""Writes tables as Parquet files: one folder per table, with Hive partitions by agent and day."""

from __future__ import annotations

import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import UnspoolError, UsageError
from .extra import load_package
from .schema import TABLES, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from .tables import Tables

PARTITIONS = ("agent", "day")
ROW_GROUP = 1 << 16
_NO_DAY = "day=__HIVE_DEFAULT_PARTITION__"
_PENDING_BYTES = 24 << 20
"""When this many bytes are pending, the largest table is written. Small files would be slow to read."""


class ParquetFolder:
    """Writes tables to a folder, where they appear once all of them are written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        present = [name for name in TABLES if (folder / name).exists()]
        if present:
            raise UsageError(
                f"{folder} already has the table {present[0]!r}; choose another directory, "
                "or keep one up to date with `unspool lake sync`"
            )
        self._staging = folder / f".unspool-{uuid.uuid4().hex}"
        self._pending: dict[str, list[pa.RecordBatch]] = {}
        self._sizes: dict[str, int] = {}
        """Bytes of the pending batches."""
        self._parts = 0

    def write(self, tables: Tables) -> None:
        """Write all tables."""
        is_new = not self._folder.exists()
        try:
            self._staging.mkdir(parents=True)
            for name, batch in tables.batches():
                self._pending.setdefault(name, []).append(batch)
                self._sizes[name] = self._sizes.get(name, 0) + batch.nbytes
                if sum(self._sizes.values()) > _PENDING_BYTES:
                    self._write(max(self._sizes, key=self._sizes.__getitem__))
            for name in list(self._pending):
                self._write(name)
            for name in TABLES:
                self._finish(name)
        except OSError as error:
            raise UnspoolError(f"{self._folder}: {error.strerror or error}") from error
        finally:
            shutil.rmtree(self._staging, ignore_errors=True)
            if is_new:
                with suppress(OSError):
                    # Only an empty folder can be removed: one in which there is no table.
                    self._folder.rmdir()

    def _write(self, name: str) -> None:
        arrow, dataset = load_package("pyarrow"), load_package("pyarrow.dataset")
        batches = self._pending.pop(name)
        del self._sizes[name]
        self._parts += 1
        schema = arrow_schema(name, plain=True)
        fields = arrow.schema([schema.field(partition) for partition in PARTITIONS])
        parquet = dataset.ParquetFileFormat()
        # Batches without dictionaries are several times as large, so they are converted one at a time.
        plain = (part for batch in batches for part in arrow.Table.from_batches([batch]).cast(schema).to_batches())
        dataset.write_dataset(
            arrow.RecordBatchReader.from_batches(schema, plain),
            self._staging / name,
            format=parquet,
            file_options=parquet.make_write_options(compression="zstd"),
            partitioning=dataset.partitioning(fields, flavor="hive"),
            basename_template=f"part-{self._parts:05}-{{i}}.parquet",
            existing_data_behavior="overwrite_or_ignore",
            max_rows_per_group=ROW_GROUP,
            max_partitions=1 << 16,
        )

    def _finish(self, name: str) -> None:
        """Move a table to its final folder."""
        made = self._staging / name
        if not any(folder.name != _NO_DAY for folder in made.glob("agent=*/day=*")):
            self._write_no_rows(made, name)
        made.rename(self._folder / name)

    def _write_no_rows(self, made: Path, name: str) -> None:
        """Write a file without rows. It defines the columns of an empty table, and that days are not always null."""
        arrow, parquet = load_package("pyarrow"), load_package("pyarrow.parquet")
        columns = [field for field in arrow_schema(name, plain=True) if field.name not in PARTITIONS]
        partition = made / "agent=none" / "day=1970-01-01"
        partition.mkdir(parents=True)
        parquet.write_table(arrow.Table.from_batches([], arrow.schema(columns)), partition / "part-00000-0.parquet")
