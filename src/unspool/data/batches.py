"""Rows → Arrow record batches. A batch can always be made: values that Arrow cannot hold are replaced and reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .extra import load_package
from .schema import Column, Table, arrow_schema, arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]
Report = Callable[[Row, Column, str], None]
"""Called with a row, a column and what was done to the value."""

LARGEST = 2**63 - 1
_TOO_LARGE = "a number that does not fit into 64 bits was replaced with the nearest that does: "
_SURROGATES = "half of a surrogate pair is no character; it was replaced with U+FFFD"


def make_batch(table: Table, rows: Sequence[Row], report: Report) -> pa.RecordBatch:
    """A record batch of some rows."""
    arrow = load_package("pyarrow")
    schema = arrow_schema(table.name)
    columns = zip(*rows, strict=True) if rows else ((),) * len(table.columns)
    arrays = [_array(column, values, rows, report) for column, values in zip(table.columns, columns, strict=True)]
    batch: pa.RecordBatch = arrow.RecordBatch.from_arrays(arrays, schema=schema)
    return batch


def _array(column: Column, values: Sequence[Any], rows: Sequence[Row], report: Report) -> Any:
    arrow = load_package("pyarrow")
    kind = arrow_type(column.kind)
    try:
        return arrow.array(values, kind)
    except (UnicodeError, OverflowError, arrow.ArrowException):
        found = [_possible(value, partial(report, row, column)) for value, row in zip(values, rows, strict=True)]
        return arrow.array(found, kind)


def _possible(value: Any, report: Callable[[str], None]) -> Any:
    """A value, or the nearest one that Arrow can hold."""
    if isinstance(value, list):
        return [_possible(item, report) for item in value]
    if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        digits = f"{value:.6e}" if abs(value) < 10**300 else f"about 10^{value.bit_length() * 3 // 10}"
        report(_TOO_LARGE + digits)
        return LARGEST if value > 0 else -LARGEST
    if isinstance(value, str | bytes):
        return _possible_text(value, report)
    return value


def _possible_text(value: str | bytes, report: Callable[[str], None]) -> str:
    text = value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
    try:
        text.encode()
    except UnicodeEncodeError:
        report(_SURROGATES)
        return "".join("\ufffd" if "\ud800" <= sign <= "\udfff" else sign for sign in text)
    return text
