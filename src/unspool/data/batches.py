"""Rows → Arrow record batches. A batch can always be made: values that Arrow cannot hold are replaced and reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .extra import load_package
from .places import PlaceTable
from .schema import Column, Key, Location, Table, arrow_schema, arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]
"""The values of a row, without those that its place has; then the number of its place."""
Report = Callable[[int, Column, str], None]
"""Called with the place of a row, a column and what was done to the value."""

LARGEST = 2**63 - 1
_TOO_LARGE = "a number that does not fit into 64 bits was replaced with the nearest that does: "
_ORIGIN = {"agent": 0, "session": 1, "day": 2, "source_file": 3}
"""Columns in `Origin`."""
_LINE = {"source_line": 1, "source_offset": 2, "source_length": 3}
"""Columns in `PlaceTable`."""
_SURROGATES = "half of a surrogate pair is no character; it was replaced with U+FFFD"


class PendingRows:
    """Rows of a table that are not in a batch yet."""

    def __init__(self, table: Table) -> None:
        self._columns: list[list[Any]] = [[] for column in table.columns if not _is_of_place(column)] + [[]]
        self.rows: list[Row] = []
        """To append to."""

    def __len__(self) -> int:
        return len(self._columns[-1]) + len(self.rows)

    def extend(self, columns: Iterable[Iterable[Any]]) -> None:
        """Add rows that are given as columns; the last one has the places."""
        for column, values in zip(self._columns, columns, strict=True):
            column.extend(values)

    def settle(self) -> None:
        """Keep the rows as columns: the garbage collector would look at every tuple while other sessions are read."""
        if self.rows:
            self.extend(zip(*self.rows, strict=True))
            self.rows.clear()

    def take(self) -> list[list[Any]]:
        """Remove all rows; returns them as columns."""
        self.settle()
        taken = self._columns
        self._columns = [[] for _ in taken]
        return taken


def _is_of_place(column: Column) -> bool:
    return column.cls is Key or column.cls is Location


def make_batch(table: Table, columns: Sequence[Sequence[Any]], places: PlaceTable, report: Report) -> pa.RecordBatch:
    """A record batch of some rows, given as columns."""
    arrow = load_package("pyarrow")
    *values, numbers = columns
    found = iter(values)
    making = _Arrays(arrow, numbers, places, report)
    arrays = [
        making.of_place(column) if _is_of_place(column) else making.of_values(column, next(found))
        for column in table.columns
    ]
    batch: pa.RecordBatch = arrow.RecordBatch.from_arrays(arrays, schema=arrow_schema(table.name))
    return batch


class _Arrays:
    """Makes the arrays of a batch."""

    def __init__(self, arrow: Any, numbers: Sequence[int], places: PlaceTable, report: Report) -> None:
        self._arrow = arrow
        self._impossible = UnicodeError, OverflowError, arrow.ArrowException
        """What Arrow raises for a value that it cannot hold."""
        self._numbers = numbers
        self._places = places
        self._report = report
        self._taken = arrow.array(numbers, arrow.int64())
        origins = places.array(0).take(self._taken).dictionary_encode()
        self._used = [places.origins[number] for number in origins.dictionary.to_pylist()]
        self._indices = origins.indices

    def of_values(self, column: Column, values: Sequence[Any]) -> Any:
        """The array of a column with these values."""
        kind = arrow_type(column.kind)
        try:
            return self._arrow.array(values, kind)
        except self._impossible:
            pairs = zip(values, self._numbers, strict=True)
            found = [_possible(value, partial(self._report, number, column)) for value, number in pairs]
            return self._arrow.array(found, kind)

    def of_place(self, column: Column) -> Any:
        """The array of a column that says where rows come from.

        Arrow repeats what several rows have in common, which is much faster than converting it for each.
        """
        try:
            if column.name in _LINE:
                return self._places.array(_LINE[column.name]).take(self._taken)
            values = [origin[_ORIGIN[column.name]] for origin in self._used]
            return self._arrow.array(values, arrow_type(column.kind)).take(self._indices)
        except self._impossible:
            return self.of_values(column, self._values(column))

    def _values(self, column: Column) -> list[Any]:
        """The value of each row."""
        if column.name in _LINE:
            return [self._places.columns[_LINE[column.name]][number] for number in self._numbers]
        return [self._used[index][_ORIGIN[column.name]] for index in self._indices.to_pylist()]


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
