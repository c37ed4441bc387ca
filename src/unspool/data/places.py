"""Where rows come from: the session, the file and the line."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING

from ..core import model as m
from .extra import load_package

if TYPE_CHECKING:
    import pyarrow as pa

Key = tuple[str, str, date | None]
"""Agent, session and day: the first columns of every row of a session."""
Origin = tuple[str, str, date | None, str | None]
"""The key of a session and one of its files."""
_UNKNOWN = -1


class PlaceTable:
    """All places of a batch, by their numbers."""

    def __init__(self, origins: Sequence[Origin], columns: Sequence[Sequence[int | None]]) -> None:
        self.origins = origins
        self.columns = columns
        """The position of its origin in `origins`, line, offset and length of each place."""

        self._arrays: dict[int, pa.Array] = {}

    def array(self, position: int) -> pa.Array:
        """One of the columns; raises what Arrow raises for a number that is too large."""
        if position not in self._arrays:
            arrow = load_package("pyarrow")
            self._arrays[position] = arrow.array(self.columns[position], arrow.int64())
        return self._arrays[position]


class Places:
    """Numbers places. A row has a number instead of seven values, most of which are the same in many rows.

    Numbers are valid until `clear`. The session that is being read gets new ones after it.
    """

    def __init__(self) -> None:
        self._origins: list[Origin] = []
        self._columns: tuple[list[int | None], ...] = ([], [], [], [])
        """Origin, line, offset and length of each place."""
        self._key: Key = "", "", None
        self._paths: Sequence[str] = ()
        self._sources: list[m.Source] = []
        """Of the messages of the session that is being read."""
        self._numbers = array("q")
        """Of the same messages."""
        self._files: dict[int, int] = {}
        """Origins by the number of the file."""
        self._no_file = _UNKNOWN

    def start(self, key: Key, paths: Sequence[str]) -> None:
        """Begin with the places of another session, which has these files."""
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
        """The next messages of the session; returns their numbers."""
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
        """The place of a message that was added, or of the session."""
        if index is None or not 0 <= index < len(self._sources):
            return self._add_file(self._no_file)
        if self._numbers[index] == _UNKNOWN:
            self._numbers[index] = self.of_line(self._sources[index])
        return self._numbers[index]

    def of_messages(self, indices: Iterable[int]) -> list[int]:
        """The places of messages that were added."""
        numbers = self._numbers
        return [numbers[index] if numbers[index] != _UNKNOWN else self.of_message(index) for index in indices]

    def of_line(self, source: m.Source) -> int:
        """A line of the session."""
        self._add([source])
        return len(self._columns[0]) - 1

    def of_file(self, key: Key, path: str | None) -> int:
        """A file as a whole, of any session."""
        return self._add_file(self._add_origin(key, path))

    def _add_file(self, origin: int) -> int:
        origins, *lines = self._columns
        origins.append(origin)
        for column in lines:
            column.append(None)
        return len(origins) - 1

    def clear(self) -> None:
        """Forget all numbers."""
        self._origins.clear()
        for column in self._columns:
            column.clear()
        self._start_numbers()

    def to_table(self) -> PlaceTable:
        """All places so far."""
        return PlaceTable(self._origins, self._columns)
