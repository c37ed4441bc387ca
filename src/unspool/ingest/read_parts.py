"""What one process has read of a session, for another to write: in parts, through a file.

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
from .archive import PackedLog, keep_new
from .scan import LogStat
from .session import SessionIngest
from .writer import Ending, Messages


class PartFileError(UnspoolError):
    """The file between two processes cannot be written, because the disk is full, for example."""


class ChunkPart(NamedTuple):
    """Some compressed bytes of a log."""

    path: Path
    start: int
    length: int
    """How many bytes there were before compression."""
    data: bytes


class MessagesPart(NamedTuple):
    """Some messages of a session."""

    session: str
    messages: Messages


Part = ChunkPart | MessagesPart


class ReadSession(NamedTuple):
    """A session, and what is known of it after its last line."""

    name: str
    ending: Ending


class ReadRef(NamedTuple):
    """What was read, or why it could not be read; the parts are beside it."""

    home: int
    position: int
    """Its position in the work of the home."""
    around: str
    """The fingerprint of its surroundings, before it was read."""
    sessions: list[ReadSession]
    logs: dict[Path, PackedLog]
    faults: dict[Path, OSError]
    """What could not be read."""
    parts: int
    """How many parts there are."""
    weight: int
    """About how many bytes they have."""
    is_gone: bool = False
    """Whether one of its files was deleted in the meantime."""
    failure: str = ""
    """Why it could not be read although its files can be."""


class PartWriter:
    """Writes the parts of one session, and then the rest of what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._start = file.tell()
        self.count = 0
        self.weight = 0

    def add(self, part: Part, weight: int) -> None:
        """Write a part, which has about as many bytes as `weight` says. Raises PartFileError."""
        self._dump(part)
        self.count += 1
        self.weight += weight

    def finish(self, read: ReadRef) -> tuple[int, int]:
        """Write the rest; returns where the parts and the rest begin. Raises PartFileError."""
        end = self._file.tell()
        self._dump(read)
        return self._start, end

    def _dump(self, value: object) -> None:
        try:
            pickle.dump(value, self._file, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            raise PartFileError(f"a temporary file cannot be written: {error.strerror}") from error


class Reading(NamedTuple):
    """A session that another process has read. Its parts can be read until the next one is asked for."""

    read: ReadRef
    file: IO[bytes]
    start: int

    def parts(self) -> Iterator[Part]:
        """Read the parts, one at a time."""
        self.file.seek(self.start)
        for _ in range(self.read.parts):
            yield pickle.load(self.file)


def write_positions(file: IO[bytes], positions: list[tuple[int, int]]) -> int:
    """Write where each session of a file begins, and the rest of it; returns where that is. Raises OSError."""
    at = file.tell()
    pickle.dump(positions, file, pickle.HIGHEST_PROTOCOL)
    file.flush()
    return at


def empty_file(number: int) -> None:
    """Empty a file, given by its descriptor, to be written from its beginning. Raises OSError."""
    os.lseek(number, 0, os.SEEK_SET)
    os.ftruncate(number, 0)


def readings(number: int, position: int) -> Iterator[Reading]:
    """Iterate over the sessions in a file, given by its descriptor; the file is emptied afterwards.

    `position` is what `write_positions` returned.
    """
    with open(number, "rb", closefd=False) as file:
        file.seek(position)
        for start, end in pickle.load(file):
            file.seek(end)
            yield Reading(pickle.load(file), file, start)
    empty_file(number)


def write_new(
    store: Store,
    agent: str,
    ref: str,
    reading: Reading,
    stats: Mapping[Path, LogStat],
    at: float,
    mark: str,
    forgotten: Collection[str],
) -> None:
    """Write new sessions and their logs, in a transaction; `mark` is a part of their fingerprints.

    Sessions that were forgotten are left out.
    """
    read = reading.read
    files = {path: keep_new(store, stats[path], log, at) for path, log in read.logs.items()}
    sessions = [session for session in read.sessions if session.name not in forgotten]
    ingests = {session.name: SessionIngest(store, agent, session.name, ref) for session in sessions}
    for ingest in ingests.values():
        ingest.begin()
    for part in reading.parts():
        if isinstance(part, ChunkPart):
            store.files.put_chunk(files[part.path], part.start, part.length, part.data)
        elif part.session in ingests:
            ingests[part.session].write(part.messages)
    for session in sessions:
        ingests[session.name].finish(session.ending, mark + read.around, list(files.values()))
