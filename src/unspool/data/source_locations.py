"""The origin of rows: session, file and line."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, cast

from ..core import model as m
from .extra import load_package

if TYPE_CHECKING:
    import pyarrow as pa

Key = tuple[str, str, date | None]
"""Agent, session and day: the first columns of every row of a session."""
Origin = tuple[str, str, date | None, str | None]
"""The key of a session, and the path of one of its files."""
_UNKNOWN = -1


class LocationTable:
    """The locations of the rows in a batch, indexed by their numbers."""

    def __init__(self, origins: Sequence[Origin], columns: Sequence[Sequence[int | None]]) -> None:
        self.origins = origins
        self.columns = columns
        """Four columns, with a value for each location: index in `origins`, line, offset and length."""

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """The columns as Arrow arrays; raises Arrow's error if a number is too large."""
        arrow = load_package("pyarrow")
        arrays = [arrow.array(column, arrow.int64()) for column in self.columns]
        batch: pa.RecordBatch = arrow.RecordBatch.from_arrays(arrays, ["origin", "line", "offset", "length"])
        return batch


class SourceLocations:
    """Assigns numbers to locations, so that a row has one number instead of seven values that many rows have in common.

    Numbers are valid until `clear`.
    """

    def __init__(self) -> None:
        self._origins: list[Origin] = []
        self._columns: tuple[list[int | None], ...] = ([], [], [], [])
        """The columns of the `LocationTable`."""
        self._key: Key = "", "", None
        self._paths: Sequence[str] = ()
        self._sources: list[m.Source] = []
        """The sources of the messages of the current session."""
        self._numbers = array("q")
        """The locations of the same messages, or `_UNKNOWN` after `clear`."""
        self._files: dict[int, int] = {}
        """The index in `_origins` of each file of the current session."""
        self._no_file = _UNKNOWN

    def start(self, key: Key, paths: Sequence[str]) -> None:
        """Start the next session, which has these files."""
        self._key, self._paths = key, paths
        self._sources.clear()
        self._start_numbers()

    def _start_numbers(self) -> None:
        self._numbers = array("q", [_UNKNOWN]) * len(self._sources)
        self._files = {file: self._add_origin(self._key, path) for file, path in enumerate(self._paths)}
        self._no_file = self._add_origin(self._key, None)

    def _add_origin(self, key: Key, path: str | None) -> int:
        self._origins.append((*key, path))
        return len(self._origins) - 1

    def add_messages(self, sources: Iterable[m.Source]) -> range:
        """Add the next messages of the session, and return their numbers."""
        added = [*sources]
        first = len(self._columns[0])
        self._add(added)
        numbers = range(first, first + len(added))
        self._sources += added
        self._numbers.extend(numbers)
        return numbers

    def _add(self, sources: Sequence[m.Source]) -> None:
        files, no_file = self._files, self._no_file
        origins, lines, offsets, lengths = self._columns
        origins += [files.get(source.file, no_file) for source in sources]
        lines += [source.line for source in sources]
        offsets += [source.offset for source in sources]
        lengths += [source.length for source in sources]

    def of_message(self, index: int | None) -> int:
        """Return the location of a message; without a valid index, that of the session."""
        if index is None or not 0 <= index < len(self._sources):
            return self._add_file(self._no_file)
        if self._numbers[index] == _UNKNOWN:
            self._numbers[index] = self.of_line(self._sources[index])
        return self._numbers[index]

    def of_messages(self, indices: Iterable[int]) -> list[int]:
        """Return the locations of messages."""
        numbers = self._numbers
        return [numbers[index] if numbers[index] != _UNKNOWN else self.of_message(index) for index in indices]

    def of_line(self, source: m.Source) -> int:
        """Add a line of the session, and return its location."""
        self._add([source])
        return len(self._columns[0]) - 1

    def of_file(self, key: Key, path: str | None) -> int:
        """Add a file of any session, and return its location."""
        return self._add_file(self._add_origin(key, path))

    def _add_file(self, origin: int) -> int:
        origins, *lines = self._columns
        origins.append(origin)
        for column in lines:
            column.append(None)
        return len(origins) - 1

    def clear(self, keep: Iterable[int] = ()) -> dict[int, int]:
        """Forget all locations except those in `keep`, and return the new numbers of these."""
        kept = sorted(set(keep))
        origins, *lines = ([column[number] for number in kept] for column in self._columns)
        used = {origin: number for number, origin in enumerate(dict.fromkeys(origins))}
        self._origins = [self._origins[cast("int", origin)] for origin in used]
        self._columns = ([used[origin] for origin in origins], *lines)
        self._start_numbers()
        return {old: new for new, old in enumerate(kept)}

    def to_table(self) -> LocationTable:
        """Return all locations."""
        return LocationTable(self._origins, self._columns)
