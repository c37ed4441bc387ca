"""Generates the reference of the tables from `unspool.data.schema` and the docstrings of the columns' Structs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unspool.data.schema import TABLES, TABLES_SCHEMA, Column

from .docstrings import field_docs

_TYPES = {
    "string": "string", "category": "string (dictionary)", "json": "string (JSON)", "int": "int64", "float": "float64",
    "bool": "bool", "time": "timestamp (µs, UTC)", "date": "date", "strings": "list of string", "ints": "list of int64",
}  # fmt: skip


def published() -> dict[str, Any]:
    """Return the published description of the tables."""
    return {
        "schema": TABLES_SCHEMA,
        "tables": {
            table.name: {
                "description": table.about,
                "columns": [
                    {"name": column.name, "type": _TYPES[column.kind], "description": meaning(column)}
                    for column in table.columns
                ],
            }
            for table in TABLES.values()
        },
    }


def meaning(column: Column) -> str:
    """Return the description of a column."""
    return field_docs(column.cls).get(column.field, "")


def page() -> str:
    """Return the page: every table with every column."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Tables"
    yield ""
    yield f"The columns of version `{TABLES_SCHEMA}`, which is also published as"
    yield "[JSON](../schema/unspool-tables-1.json). [Tables, SQL and the lake](../data.md) explains how to get them."
    yield "Every column can be null."
    yield ""
    for table in TABLES.values():
        yield f"## {table.name}"
        yield ""
        yield table.about
        yield ""
        yield "| column | type | meaning |"
        yield "|---|---|---|"
        for column in table.columns:
            yield f"| `{column.name}` | {_TYPES[column.kind]} | {meaning(column)} |"
        yield ""
