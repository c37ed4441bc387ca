"""`unspool sql`: query sessions with SQL."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...core.errors import UsageError
from ...render.sanitize import one_line
from .._shared.options import add_source, is_terminal
from .._shared.output import console, write_json
from .._shared.output_file import writing
from .._shared.redaction import add_redaction, redactor_of
from .._shared.store import open_synced_store

if TYPE_CHECKING:
    import pyarrow as pa

EXAMPLES = """examples:
  unspool sql "select tool_name, count(*) from tool_calls group by all order by 2 desc"
  unspool sql --list
  unspool sql --redact "select tool_name, input from tool_calls" --csv > calls.csv
  unspool sql --question failing-commands --csv > commands.csv
  unspool sql --lake lake/ "select day, sum(output) from usage group by all" --parquet days.parquet"""

_CELL = 60


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("query", nargs="?", help="a query in DuckDB's SQL; the documentation lists tables and columns")
    parser.add_argument("--question", metavar="NAME", help="run a predefined query")
    parser.add_argument("--list", action="store_true", help="list the predefined queries")
    parser.add_argument("--lake", metavar="DIR", help="query a lake that `unspool lake sync` wrote, instead of a store")
    parser.add_argument("--as-of", metavar="N", type=int, help="with --lake: an earlier snapshot")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print one JSON object per row")
    output.add_argument("--csv", action="store_true", help="print comma-separated values")
    output.add_argument("--parquet", metavar="FILE", help="write a Parquet file")
    add_source(parser, syncs=True)
    add_redaction(parser)


def run(args: argparse.Namespace) -> int:
    """Run the query and print the result."""
    from ...data.sql import find_question, questions, run_on_lake, run_on_tables

    if args.list:
        if args.query is not None or args.question is not None or args.parquet is not None:
            raise UsageError("--list lists the predefined queries; it takes no query and writes no file")
        _print_rows(args, ("name", "question"), ((each.name, each.text) for each in questions()))
        return 0
    if (args.query is None) == (args.question is None):
        raise UsageError("pass either a query or --question NAME; `unspool sql --list` lists the predefined queries")
    if args.as_of is not None and args.lake is None:
        raise UsageError("--as-of needs --lake: only a lake has snapshots")
    if args.lake is not None and (args.samples or args.home or args.store is not None or args.no_sync):
        raise UsageError("--lake queries a lake; --home, --store, --samples and --no-sync do not apply to it")
    redactor = redactor_of(args)
    if redactor is not None and args.lake is not None:
        raise UsageError("a lake is redacted when it is written: `unspool lake sync DIR --redact`")
    sql = args.query if args.question is None else find_question(args.question).sql
    if args.lake is not None:
        from ...data.lake import Lake

        _print(args, run_on_lake(Lake(args.lake, as_of=args.as_of), sql))
        return 0
    from ...data.sources import Stored
    from ...data.tables import Tables

    with open_synced_store(args) as store:
        # Redacted before the query: parts of a text could not be redacted afterwards.
        _print(args, run_on_tables(Tables([Stored(store, redactor=redactor)]), sql))
    return 0


def _print(args: argparse.Namespace, result: pa.RecordBatchReader) -> None:
    if args.parquet is not None:
        from pyarrow import parquet

        with (
            writing(Path(args.parquet).expanduser()) as file,
            parquet.ParquetWriter(file, result.schema, compression="zstd") as writer,
        ):
            for batch in result:
                writer.write_batch(batch)
        return
    rows = (row for batch in result for row in zip(*map(_values, result.schema, batch.columns), strict=True))
    _print_rows(args, result.schema.names, rows)


def _values(field: pa.Field, column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError) as error:
        # Python has no time before the year 1, after the year 9999, or at infinity.
        raise UsageError(f"the column {field.name!r} cannot be printed: {error}; cast it to VARCHAR") from error
    return values


def _print_rows(args: argparse.Namespace, names: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
    if args.json:
        # DuckDB returns sums of integers as decimals.
        encode = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode
        for row in rows:
            write_json(encode(dict(zip(names, row, strict=True))) + b"\n")
    elif args.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
    else:
        _print_plain(names, rows)


def _print_plain(names: Iterable[str], rows: Iterable[tuple[object, ...]]) -> None:
    """Print a table on a terminal, and tab-separated columns elsewhere."""
    if not is_terminal():
        print("\t".join(names))
        for row in rows:
            print("\t".join(_cell(value, 1000) for value in row))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(Text(name))
    for row in rows:
        table.add_row(*(Text(_cell(value, _CELL)) for value in row))
    console().print(table)


def _cell(value: object, most: int) -> str:
    return "" if value is None else one_line(str(value), most)
