"""SQL over sessions: the tables in DuckDB, and questions that come with unspool."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.resources import files
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
    """The answer to a query. Only the tables that it names are made."""
    connection = load_package("duckdb").connect()
    for name in TABLES:
        _create(connection, name)
    if wanted := _named(connection, sql):
        _fill(connection, tables, wanted)
    return _answer(connection, sql)


def run_on_lake(lake: Lake, sql: str) -> pa.RecordBatchReader:
    """The answer to a query on a lake, all tables as of the same snapshot."""
    connection = load_package("duckdb").connect()
    # A query that names none gets all, so that an error can say which there are.
    for name, dataset in lake.datasets(*_named(connection, sql)).items():
        connection.register(name, dataset)
    return _answer(connection, sql)


def _named(connection: DuckDBPyConnection, sql: str) -> tuple[str, ...]:
    """The tables of sessions that a query names."""
    try:
        found = connection.get_table_names(sql)
    except load_package("duckdb").Error as error:
        raise UsageError(_sentence(error)) from error
    return tuple(name for name in TABLES if name in found)


def _answer(connection: DuckDBPyConnection, sql: str) -> pa.RecordBatchReader:
    try:
        found = connection.sql(sql)
        if found is None:
            raise UsageError("this statement has no answer; ask with SELECT")
        reader: pa.RecordBatchReader = _reader(found)
    except load_package("duckdb").Error as error:
        raise UsageError(_sentence(error)) from error
    return reader


def _reader(found: Any) -> Any:
    """The rows of an answer; the method has another name since DuckDB 2."""
    return found.to_arrow_reader() if hasattr(found, "to_arrow_reader") else found.fetch_record_batch()


def _sentence(error: Exception) -> str:
    """What DuckDB says about a query, without the excerpt of it."""
    return "the query failed: " + " ".join(str(error).partition("\nLINE")[0].split())


# --- questions --------------------------------------------------------------------------------------------------------


class Plot(NamedTuple):
    """How the answer to a question is drawn: the kind of chart, and the columns."""

    kind: str
    x: str
    y: str


class Question(NamedTuple):
    """A query that comes with unspool."""

    name: str
    text: str
    """The question in words."""
    sql: str
    plot: Plot


def questions() -> Iterator[Question]:
    """All questions, by name."""
    folder = files(__package__ or "") / "queries"
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.endswith(".sql"):
            sql = path.read_text(encoding="utf-8")
            plot = _PLOT.search(sql)
            assert plot is not None, path.name
            yield Question(path.name.removesuffix(".sql"), sql.splitlines()[0][3:], sql, Plot(*plot.groups()))


def find_question(name: str) -> Question:
    """A question by its name."""
    found = {question.name: question for question in questions()}
    if name not in found:
        raise UsageError(f"there is no question {name!r}; `unspool sql --list` lists them")
    return found[name]
