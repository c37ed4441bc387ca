"""SQL over sessions: the tables in DuckDB, and the predefined queries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import UsageError
from .extra import load_package
from .schema import TABLES, arrow_schema, find_table

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from .lake import Lake
    from .tables import Tables

_BATCH = "unspool_batch"
_LONGEST_ERROR = 300
_WORD = re.compile(r"\w+")
_PLOT = re.compile(r"^-- plot: (\w+) (\w+) (\w+)$", re.MULTILINE)


def load_into(connection: DuckDBPyConnection, tables: Tables, names: Iterable[str]) -> None:
    """Copy tables into a DuckDB database, batch by batch."""
    wanted = tuple(names)
    for name in wanted:
        _create(connection, name)
    _fill(connection, tables, wanted)


def _create(connection: DuckDBPyConnection, name: str) -> None:
    arrow = load_package("pyarrow")
    connection.register(_BATCH, arrow.Table.from_batches([], arrow_schema(find_table(name).name, plain=True)))
    connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM {_BATCH}')
    connection.unregister(_BATCH)


def _fill(connection: DuckDBPyConnection, tables: Tables, names: tuple[str, ...]) -> None:
    for name, batch in tables.batches(*names):
        connection.register(_BATCH, batch)
        connection.execute(f'INSERT INTO "{name}" SELECT * FROM {_BATCH}')
        connection.unregister(_BATCH)


def run_on_tables(tables: Tables, sql: str) -> pa.RecordBatchReader:
    """Run a query on tables in memory. Only the tables that it names are filled."""
    connection = _connect()
    wanted = _named(connection, sql)
    # A table that is not filled must not exist, because the answer would be wrong without an error. A query that names
    # no table gets all of them, so that it can list them and DuckDB's error can suggest one.
    for name in wanted or TABLES:
        _create(connection, name)
    if wanted:
        _fill(connection, tables, wanted)
    return _answer(connection, sql)


def run_on_lake(lake: Lake, sql: str) -> pa.RecordBatchReader:
    """Run a query on a lake, with all tables as of the same snapshot."""
    connection = _connect()
    for name, dataset in lake.datasets(*_named(connection, sql)).items():
        connection.register(name, dataset)
    connection.register("snapshots", lake.snapshots())
    return _answer(connection, sql)


def _connect() -> DuckDBPyConnection:
    """Open a database in memory. By default, DuckDB would look for unknown tables among our Python variables."""
    connection: DuckDBPyConnection = load_package("duckdb").connect()
    connection.execute("SET python_enable_replacements = false")
    return connection


def _named(connection: DuckDBPyConnection, sql: str) -> tuple[str, ...]:
    """Return the names of our tables that a query uses; raises UsageError if it is not SQL."""
    duckdb = load_package("duckdb")
    try:
        connection.extract_statements(sql)
    except duckdb.Error as error:
        raise UsageError(_sentence(error)) from error
    try:
        # DuckDB ignores the case of names.
        found = {name.lower() for name in connection.get_table_names(sql)}
    except duckdb.Error:
        # It does not know the columns here, so it rejects many valid queries, for example with USING or PIVOT.
        words = set(_WORD.findall(sql.lower()))
        return tuple(name for name in TABLES if name in words) or tuple(TABLES)
    return tuple(name for name in TABLES if name in found)


def _answer(connection: DuckDBPyConnection, sql: str) -> pa.RecordBatchReader:
    try:
        found = connection.sql(sql)
        if found is None:
            raise UsageError("this statement returns no rows; use SELECT")
        rows: pa.RecordBatchReader = _reader(found)
    except load_package("duckdb").Error as error:
        raise UsageError(_sentence(error)) from error
    arrow = load_package("pyarrow")
    schema = arrow.schema(
        [field.with_name(name) for field, name in zip(rows.schema, _unique(rows.schema.names), strict=True)]
    )
    reader: pa.RecordBatchReader = arrow.RecordBatchReader.from_batches(schema, _batches(rows, schema))
    return reader


def _batches(rows: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a result. A query may also fail after its first rows."""
    arrow = load_package("pyarrow")
    try:
        for batch in rows:
            yield arrow.RecordBatch.from_arrays(batch.columns, schema=schema)
    except (OSError, arrow.ArrowException) as error:
        raise UsageError(_sentence(error)) from error


def _unique(names: Iterable[str]) -> list[str]:
    """Return different names for columns that have the same one, as DuckDB does when it creates a table."""
    given = list(names)
    found: list[str] = []
    for name in given:
        free = (f"{name}_{number}" for number in count(1))
        found.append(name if name not in found else next(each for each in free if each not in (*given, *found)))
    return found


def _reader(found: Any) -> Any:
    """Return the rows of a result as a stream. DuckDB 2 renamed the method."""
    return found.to_arrow_reader() if hasattr(found, "to_arrow_reader") else found.fetch_arrow_reader()


def _sentence(error: Exception) -> str:
    """Return DuckDB's error message in one line, without the excerpt of the query, and without most of a long value."""
    text = " ".join(str(error).partition("\nLINE")[0].split())
    if len(text) > _LONGEST_ERROR:
        text = f"{text[: _LONGEST_ERROR // 2]} … {text[-_LONGEST_ERROR // 2 :]}"
    return f"the query failed: {text}"


# --- predefined queries -----------------------------------------------------------------------------------------------


class Plot(NamedTuple):
    """The chart for the result of a query: its kind and the columns of its axes."""

    kind: str
    x: str
    y: str


class Question(NamedTuple):
    """A predefined query."""

    name: str
    text: str
    """The question that it answers."""
    sql: str
    plot: Plot


def questions() -> Iterator[Question]:
    """Yield all predefined queries, sorted by name."""
    folder = files(__package__ or "") / "queries"
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.endswith(".sql"):
            sql = path.read_text(encoding="utf-8")
            plot = _PLOT.search(sql)
            assert plot is not None, path.name
            yield Question(path.name.removesuffix(".sql"), sql.splitlines()[0][3:], sql, Plot(*plot.groups()))


def find_question(name: str) -> Question:
    """Return a predefined query; raises UsageError for an unknown name."""
    found = {question.name: question for question in questions()}
    if name not in found:
        raise UsageError(f"unknown question {name!r}; `unspool sql --list` lists them")
    return found[name]
