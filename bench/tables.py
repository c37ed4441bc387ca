"""Sessions as tables: the cost over reading, size and memory of Parquet files, and questions to a million messages."""

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
"""Of all sessions of a home, with all of the tables and without."""
_MESSAGES = 1_000_000
_LENGTH = 10
_SESSIONS = ("session", "parent", "origin")
"""Columns with names of sessions."""
_MOST_SECONDS = 1.0


def measure(inputs: Inputs) -> Iterator[Measure]:
    """Tables of real sessions where there are any, otherwise of multiplied recordings."""
    home = inputs.real or inputs.more
    size = size_of(home)
    floor, ours = _best(home)
    detail = f"{size / 1e6:.0f} MB in {ours:.1f} s, load {floor:.1f} s of CPU time"
    yield Measure("all tables, to loading the sessions", ours / floor, "x", 1.6, detail)
    lake = inputs.folder / "parquet"
    command = [sys.executable, "-m", "unspool", "export", "--home", str(home), "--format", "parquet", "-o", str(lake)]
    peak = memory.peak_of(command)
    detail = f"{size_of(lake) / 1e6:.0f} MB of {size / 1e6:.0f} MB"
    yield Measure("Parquet, to its source", 100 * size_of(lake) / size, " %", 20, detail)
    yield Measure("memory of export --format parquet", peak / 1e6, " MB", 400)
    shutil.rmtree(lake)


def _best(home: Path) -> tuple[float, float]:
    """CPU seconds of loading and of making tables, in turns; rows are dropped as they come."""

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
    return min(one for one, _ in times), min(other for _, other in times)


def asking(inputs: Inputs) -> Iterator[Measure]:
    """Each of the questions, over Parquet files as many programs read them."""
    connection = duckdb.connect()
    folder = inputs.folder / "questions"
    messages = _write(inputs, folder)
    for name in TABLES:
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{folder}/{name}/*.parquet')")
    for what, clock in (("", time.perf_counter), (", processor time", time.process_time)):
        times = {question.name: _best_of(connection, question.sql, clock) for question in questions()}
        slow = sorted(times, key=lambda name: -times[name])
        detail = f"{messages:,} messages; " + ", ".join(f"{name} {times[name]:.2f} s" for name in slow[:3])
        name = f"the slowest of {len(times)} questions in DuckDB{what}"
        yield Measure(name, times[slow[0]], " s", _MOST_SECONDS, f"{detail}; all {sum(times.values()):.1f} s")
    connection.close()
    shutil.rmtree(folder)


def _best_of(connection: duckdb.DuckDBPyConnection, sql: str, clock: Callable[[], float]) -> float:
    return min(seconds(lambda: connection.execute(sql).fetchall(), clock) for _ in range(_ROUNDS))


def _write(inputs: Inputs, folder: Path) -> int:
    """Tables of recordings as often as it takes, each time with other sessions; returns the number of messages."""
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
    """The same rows of other sessions."""
    for column in _SESSIONS:
        if column in table.column_names:
            place = table.column_names.index(column)
            names = compute.binary_join_element_wise(table.column(column).cast(pa.string()), str(copy), "-")
            table = table.set_column(place, column, names)
    return table
