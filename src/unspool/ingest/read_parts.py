"""Passes a session from the process that reads it to the process that writes it, in parts, through a file.

Neither of the two holds a whole session in memory, however long it is.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, NamedTuple

from ..core.errors import UnspoolError
from ..store import Store
from .archive import PackedLog, add_file_row
from .scan import LogStat
from .session import SessionIngest
from .writer import Ending, Messages


class PartFileError(UnspoolError):
    """The file that passes data between two processes cannot be written, for example because the disk is full."""


class ChunkPart(NamedTuple):
    """Some compressed bytes of a log."""

    path: Path
    start: int
    length: int
    """Number of bytes before compression."""
    data: bytes


class MessagesPart(NamedTuple):
    """Some messages of a session."""

    session: str
    messages: Messages


Part = ChunkPart | MessagesPart


class ReadSession(NamedTuple):
    """A session, and the data that is known after its last line."""

    name: str
    ending: Ending


class ReadResult(NamedTuple):
    """The sessions of one source, or the reason why they could not be read; their parts are stored before it."""

    home: int
    position: int
    """Its position in the work of the home."""
    fingerprint: str
    """See `session_fingerprint`; from before it was read."""
    sessions: list[ReadSession]
    logs: dict[Path, PackedLog]
    faults: dict[Path, OSError]
    """The files and folders that could not be read."""
    parts: int
    """Number of parts."""
    weight: int
    """The approximate size of the parts in bytes."""
    is_gone: bool = False
    """Whether one of its files was deleted in the meantime."""
    failure: str = ""
    """Why it could not be read although its files are readable."""


class PartWriter:
    """Writes the parts of one source, followed by its `ReadResult`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._start = file.tell()
        self.count = 0
        self.weight = 0

    def add(self, part: Part, weight: int) -> None:
        """Write a part of about `weight` bytes. Raises PartFileError."""
        self._dump(part)
        self.count += 1
        self.weight += weight

    def finish(self, result: ReadResult) -> tuple[int, int]:
        """Write the `ReadResult`; returns the offsets of the parts and of the `ReadResult`. Raises PartFileError."""
        end = self._file.tell()
        self._dump(result)
        return self._start, end

    def _dump(self, value: object) -> None:
        try:
            pickle.dump(value, self._file, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            raise PartFileError(f"a temporary file cannot be written: {error.strerror}") from error


class SpooledResult(NamedTuple):
    """A source that another process has read. Its parts can be read until the next `SpooledResult` is requested."""

    result: ReadResult
    file: IO[bytes]
    start: int

    def parts(self) -> Iterator[Part]:
        """Read the parts, one at a time."""
        self.file.seek(self.start)
        for _ in range(self.result.parts):
            yield pickle.load(self.file)


def write_positions(file: IO[bytes], positions: list[tuple[int, int]]) -> int:
    """Write the offsets that `PartWriter.finish` returned; returns the offset of this list. Raises OSError."""
    at = file.tell()
    pickle.dump(positions, file, pickle.HIGHEST_PROTOCOL)
    file.flush()
    return at


def empty_file(number: int) -> None:
    """Empty a file, given by its descriptor, and seek to its start. Raises OSError."""
    os.lseek(number, 0, os.SEEK_SET)
    os.ftruncate(number, 0)


def spooled_results(number: int, position: int) -> Iterator[SpooledResult]:
    """Iterate over the sources in a file, given by its descriptor; the file is emptied afterwards.

    `position` is what `write_positions` returned.
    """
    with open(number, "rb", closefd=False) as file:
        file.seek(position)
        for start, end in pickle.load(file):
            file.seek(end)
            yield SpooledResult(pickle.load(file), file, start)
    empty_file(number)


def write_new(
    store: Store,
    agent: str,
    ref: str,
    spooled: SpooledResult,
    stats: Mapping[Path, LogStat],
    at: float,
    mark: str,
    forgotten: Collection[str],
) -> None:
    """Write new sessions and their logs, inside a transaction; `mark` is a part of their fingerprints.

    Sessions that were forgotten are left out.
    """
    result = spooled.result
    files = {path: add_file_row(store, stats[path], log, at) for path, log in result.logs.items()}
    sessions = [session for session in result.sessions if session.name not in forgotten]
    ingests = {session.name: SessionIngest(store, agent, session.name, ref) for session in sessions}
    for ingest in ingests.values():
        ingest.begin()
    for part in spooled.parts():
        if isinstance(part, ChunkPart):
            store.files.put_chunk(files[part.path], part.start, part.length, part.data)
        elif part.session in ingests:
            ingests[part.session].write(part.messages)
    for session in sessions:
        ingests[session.name].finish(session.ending, mark + result.fingerprint, list(files.values()))
