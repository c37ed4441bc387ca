"""Measures tables: their cost relative to loading, size and memory of Parquet files, and the predefined queries."""

from __future__ import annotations

import gc
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
from pyarrow import compute, parquet

import unspool
from unspool.data.schema import TABLES, arrow_schema
from unspool.data.sql import questions
from unspool.library import Library

from . import memory
from .inputs import Inputs, size_of
from .multiply import multiply
from .report import Measure, seconds

_ROUNDS = 3
_READINGS = 2
"""How many times all sessions of a home are loaded, and converted to tables."""
_MESSAGES = 1_000_000
_LENGTH = 10
_SESSION_COLUMNS = ("session", "parent", "origin")
"""Columns with names of sessions."""
_MAX_SECONDS = 1.0


def measure(inputs: Inputs) -> Iterator[Measure]:
    """Measure tables of real sessions if there are any, otherwise of multiplied recordings."""
    home = inputs.real or inputs.more
    size = size_of(home)
    baseline, took = _best(home)
    detail = f"{size / 1e6:.0f} MB in {took:.1f} s, load {baseline:.1f} s of CPU time"
    yield Measure("all tables, relative to loading the sessions", took / baseline, "x", 1.6, detail)
    lake = inputs.folder / "parquet"
    command = [sys.executable, "-m", "unspool", "export", "--home", str(home), "--format", "parquet", "-o", str(lake)]
    peak = memory.peak_of(command)
    detail = f"{size_of(lake) / 1e6:.0f} MB of {size / 1e6:.0f} MB"
    yield Measure("size of Parquet files, relative to their source", 100 * size_of(lake) / size, " %", 20, detail)
    yield Measure("memory of export --format parquet", peak / 1e6, " MB", 400)
    shutil.rmtree(lake)


def _best(home: Path) -> tuple[float, float]:
    """Return the CPU seconds of loading sessions and of making tables, measured in turns; results are discarded."""

    def load() -> None:
        library = Library(home)
        for ref in library.refs():
            for _ in library.load_all(ref):
                pass

    def make() -> None:
        for _ in unspool.tables(home).batches():
            pass

    times = []
    for _ in range(_READINGS):
        gc.collect()
        times.append((seconds(load, time.process_time), seconds(make, time.process_time)))
    return min(loading for loading, _ in times), min(making for _, making in times)


def queries(inputs: Inputs) -> Iterator[Measure]:
    """Measure each predefined query over Parquet files."""
    connection = duckdb.connect()
    folder = inputs.folder / "questions"
    messages = _write(inputs, folder)
    for name in TABLES:
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{folder}/{name}/*.parquet')")
    for suffix, clock in (("", time.perf_counter), (", CPU time", time.process_time)):
        times = {question.name: _best_of(connection, question.sql, clock) for question in questions()}
        slow = sorted(times, key=lambda name: -times[name])
        detail = f"{messages:,} messages; " + ", ".join(f"{name} {times[name]:.2f} s" for name in slow[:3])
        name = f"the slowest of {len(times)} predefined queries in DuckDB{suffix}"
        yield Measure(name, times[slow[0]], " s", _MAX_SECONDS, f"{detail}; all {sum(times.values()):.1f} s")
    connection.close()
    shutil.rmtree(folder)


def _best_of(connection: duckdb.DuckDBPyConnection, sql: str, clock: Callable[[], float]) -> float:
    return min(seconds(lambda: connection.execute(sql).fetchall(), clock) for _ in range(_ROUNDS))


def _write(inputs: Inputs, folder: Path) -> int:
    """Write tables of recordings, copied until there are a million messages; returns the number of messages.

    Each copy has other sessions.
    """
    home = inputs.folder / "asked"
    multiply(inputs.compact, home, 1, _LENGTH)
    made: dict[str, list[pa.RecordBatch]] = {name: [] for name in TABLES}
    for name, batch in unspool.tables(home).batches():
        made[name].append(batch)
    shutil.rmtree(home)
    once = {name: pa.Table.from_batches(batches, arrow_schema(name, plain=True)) for name, batches in _plain(made)}
    copies = -(-_MESSAGES // once["messages"].num_rows)
    for name, table in once.items():
        (folder / name).mkdir(parents=True)
        for copy in range(copies):
            parquet.write_table(_renamed(table, copy), folder / name / f"{copy}.parquet", compression="zstd")
    rows: int = copies * once["messages"].num_rows
    return rows


def _plain(made: dict[str, list[pa.RecordBatch]]) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
    for name, batches in made.items():
        schema = arrow_schema(name, plain=True)
        yield name, pa.Table.from_batches(batches).cast(schema).to_batches() if batches else []


def _renamed(table: pa.Table, copy: int) -> pa.Table:
    """Return the same rows with other names of sessions."""
    for column in _SESSION_COLUMNS:
        if column in table.column_names:
            index = table.column_names.index(column)
            names = compute.binary_join_element_wise(table.column(column).cast(pa.string()), str(copy), "-")
            table = table.set_column(index, column, names)
    return table
