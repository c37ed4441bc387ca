"""Converts rows to Arrow record batches. Values that Arrow cannot represent are replaced and reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from .extra import load_package
from .schema import Column, Key, Location, Table, arrow_schema, arrow_type
from .source_locations import LocationTable

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]
"""The values of a row, without the columns of its key and location; then the number of its location."""
Report = Callable[[int, Column, str], None]
"""Called with the location of a row, a column, and a description of how the value was changed."""

LARGEST = 2**63 - 1
_TOO_LARGE = "a number that does not fit into 64 bits was replaced with the nearest one that does: "
_ORIGIN = {"agent": 0, "session": 1, "day": 2, "source_file": 3}
"""The index of a column in `Origin`."""
_LINE = {"source_line": 1, "source_offset": 2, "source_length": 3}
"""The index of a column in `LocationTable.columns`."""
_FEW_ROWS = 500
"""Up to this number of rows, looking up their locations in Python is faster than in Arrow."""
_SURROGATES = "a lone surrogate is not a valid character; it was replaced with U+FFFD"


class PendingRows:
    """Rows of a table that are not in a batch yet."""

    def __init__(self, table: Table) -> None:
        self._columns: list[list[Any]] = [[] for column in table.columns if not _is_location(column)] + [[]]
        self.rows: list[Row] = []
        """New rows, which callers append to."""

    def __len__(self) -> int:
        return len(self._columns[-1]) + len(self.rows)

    def extend(self, columns: Iterable[Iterable[Any]]) -> None:
        """Add rows given as columns. The last column has their locations."""
        for column, values in zip(self._columns, columns, strict=True):
            column.extend(values)

    @property
    def locations(self) -> Sequence[int]:
        """The locations of all rows."""
        self._transpose()
        return self._columns[-1]

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """Replace the locations with their new numbers."""
        self._columns[-1] = [numbers[number] for number in self.locations]

    def _transpose(self) -> None:
        if self.rows:
            self.extend(zip(*self.rows, strict=True))
            self.rows.clear()

    def take(self) -> list[list[Any]]:
        """Remove all rows, and return them as columns."""
        self._transpose()
        taken = self._columns
        self._columns = [[] for _ in taken]
        return taken


def _is_location(column: Column) -> bool:
    return column.cls is Key or column.cls is Location


def make_batch(
    table: Table, columns: Sequence[Sequence[Any]], locations: LocationTable, report: Report
) -> pa.RecordBatch:
    """Make a record batch from rows given as columns."""
    arrow = load_package("pyarrow")
    *values, numbers = columns
    found = iter(values)
    making = _Arrays(arrow, numbers, locations, report)
    arrays = [
        making.location_array(column) if _is_location(column) else making.value_array(column, next(found))
        for column in table.columns
    ]
    batch: pa.RecordBatch = arrow.RecordBatch.from_arrays(arrays, schema=arrow_schema(table.name))
    return batch


class _Arrays:
    """Makes the arrays of a batch."""

    def __init__(self, arrow: Any, numbers: Sequence[int], locations: LocationTable, report: Report) -> None:
        self._arrow = arrow
        self._impossible = UnicodeError, OverflowError, arrow.ArrowException
        """The errors that Arrow raises for a value that it cannot represent."""
        self._numbers = numbers
        self._locations = locations
        self._report = report
        self._lines = self._look_up() if len(numbers) > _FEW_ROWS else None
        """The columns of the rows' locations; None if they are converted from lists."""
        # The distinct origins, and the index of each row's origin among them.
        if self._lines is not None:
            origins = self._lines.column(0).dictionary_encode()
            self._used = [locations.origins[number] for number in origins.dictionary.to_pylist()]
            self._indices = origins.indices
        else:
            every = cast("Sequence[int]", locations.columns[0])
            found: dict[int, int] = {}
            indices = [found.setdefault(every[number], len(found)) for number in numbers]
            self._used = [locations.origins[number] for number in found]
            self._indices = indices

    def _look_up(self) -> Any:
        """Return the locations of the rows; None if Arrow cannot represent one of them."""
        try:
            return self._locations.batch.take(self._arrow.array(self._numbers, self._arrow.int64()))
        except self._impossible:
            return None

    def value_array(self, column: Column, values: Sequence[Any]) -> Any:
        """Return these values of a column as an array."""
        kind = arrow_type(column.kind)
        try:
            return self._arrow.array(values, kind)
        except self._impossible:
            pairs = zip(values, self._numbers, strict=True)
            found = [_possible(value, partial(self._report, number, column)) for value, number in pairs]
            return self._arrow.array(found, kind)

    def location_array(self, column: Column) -> Any:
        """Return the array of a key or location column."""
        if column.name in _LINE:
            index = _LINE[column.name]
            if self._lines is not None:
                return self._lines.column(index)
            lines = self._locations.columns[index]
            return self.value_array(column, [lines[number] for number in self._numbers])
        values = [origin[_ORIGIN[column.name]] for origin in self._used]
        if self._lines is None:
            return self.value_array(column, [values[index] for index in self._indices])
        try:
            return self._repeated(column, values)
        except self._impossible:
            return self.value_array(column, [values[index] for index in self._indices.to_pylist()])

    def _repeated(self, column: Column, values: Sequence[Any]) -> Any:
        """Return the array of a column with one value for each origin.

        Each distinct value is converted once and repeated by Arrow, which is much faster than converting all rows.
        """
        if column.kind == "category" and None not in values and len(set(values)) == len(values):
            distinct = self._arrow.array(values, self._arrow.string())
            return self._arrow.DictionaryArray.from_arrays(self._indices, distinct, safe=False)
        return self._arrow.array(values, arrow_type(column.kind)).take(self._indices)


def _possible(value: Any, report: Callable[[str], None]) -> Any:
    """Return the value, or the nearest one that Arrow can represent."""
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
