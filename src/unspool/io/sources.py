"""The sources of a session's bytes: a file of lines, a whole JSON document, or rows of a SQLite database.

Ingest, the archive and the readers see a log as a `LogSource`: something with a path that identifies it, a stamp that
shows whether it changed, and bytes. Only this module knows what it is stored in.
"""

from __future__ import annotations

import os
from contextlib import closing
from errno import EBUSY, EIO
from io import BytesIO
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

import msgspec

from .faults import GONE, report_fault
from .listing import fetch_file, open_file

if TYPE_CHECKING:
    from sqlite3 import Connection
    from types import TracebackType

COMPRESSED = ".zst"
"""Suffix of files that are compressed with Zstandard."""
_LARGEST, _SMALLEST = 2**63 - 1, -(2**63)
"""The range of integers in a database."""
_ROWS = ".jsonl"
_BUSY_SECONDS = 2.0
_MOST_ATTEMPTS = 5
"""How often a database is read again because another program opened it meanwhile."""


class Stamp(NamedTuple):
    """Shows whether a log has changed, without reading it."""

    device: int
    inode: int
    """0 if the log is not a file of its own."""
    size: int
    changed: int
    """When it was last written, in nanoseconds since 1970."""
    ctime: int = 0
    """When the file system last changed anything about it, which no program can set; 0 if it is unknown."""

    @classmethod
    def of(cls, facts: os.stat_result) -> Stamp:
        """Return the stamp of a file, in numbers that databases can store.

        Some file systems use all 64 bits of an inode number, and a time may be after the year 2262.
        """
        return cls(
            _signed(facts.st_dev),
            _signed(facts.st_ino),
            facts.st_size,
            max(_SMALLEST, min(facts.st_mtime_ns, _LARGEST)),
            max(_SMALLEST, min(facts.st_ctime_ns, _LARGEST)),
        )


FileStamp = tuple[str, int, int, int, int, int]
"""The path of a log as text, and the fields of its `Stamp`."""


class ByteStream(Protocol):
    """The part of a binary file that is used to read a log."""

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes; empty at the end."""
        ...

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move to a position, and return it counted from the beginning."""
        ...

    def __enter__(self) -> ByteStream: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


def _signed(number: int) -> int:
    """Return the signed integer with the same 64 bits."""
    return number if number <= _LARGEST else (number - _SMALLEST) % 2**64 + _SMALLEST


def read_fully(file: ByteStream, size: int) -> bytes:
    """Read `size` bytes, or fewer at the end of the file; a single call of `read` may return fewer anywhere."""
    data = file.read(size)
    while 0 < len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


class LogSource(Protocol):
    """One log: the records of a session, or of a part of one, as bytes."""

    @property
    def path(self) -> Path:
        """Identifies the log. The log of a session in a database has a path below the database file."""
        ...

    @property
    def is_appendable(self) -> bool:
        """Whether it grows by whole lines at its end, so that it can be followed while it is written."""
        ...

    def stamp(self, known: Stamp | None = None) -> Stamp | None:
        """Return its current stamp, or None if it is gone. Raises OSError if that cannot be determined.

        An unchanged log may return `known` instead of measuring.
        """
        ...

    def modified(self) -> int:
        """When it was last written, in nanoseconds since 1970; 0 if it is gone."""
        ...

    def open(self) -> ByteStream:
        """Open its bytes as they are archived, without decompressing them. Raises OSError."""
        ...

    def position(self, line: int, offset: int) -> str:
        """Describe to a person where in the log a record begins."""
        ...


class LineFile:
    """A file to which the agent appends one record per line."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def is_appendable(self) -> bool:
        """True, unless the agent has compressed it: then it is finished."""
        return self.path.suffix != COMPRESSED

    def stamp(self, known: Stamp | None = None) -> Stamp | None:  # noqa: ARG002 - asking the file system is cheap
        """Return the state of the file in the file system."""
        try:
            facts = self.path.stat()
        except GONE:
            return None
        if not S_ISREG(facts.st_mode):
            return None
        return Stamp.of(facts)

    def modified(self) -> int:
        """When the file was last written to."""
        try:
            stamp = self.stamp()
        except OSError as error:
            report_fault(error, self.path)
            return 0
        return stamp.changed if stamp is not None else 0

    def open(self) -> ByteStream:
        """Open the file."""
        return open_file(self.path)

    def position(self, line: int, offset: int) -> str:
        """Return the line and the byte."""
        return f"line {line}, byte {offset:,}"


class JsonDocument(LineFile):
    """A file that is one JSON document and is written as a whole whenever something is added."""

    __slots__ = ()

    @property
    def is_appendable(self) -> bool:
        """False: new records are not added at the end of the file."""
        return False


def file_source(path: Path) -> LogSource:
    """Return the source for a file, by its suffix."""
    return JsonDocument(path) if path.suffix == ".json" else LineFile(path)


class SqliteSource:
    """The rows of one session in a SQLite database, as JSON lines: one object per row, with a key per column.

    `queries` select the rows, in an order in which new rows come last; each takes the session as the parameter
    `:session`. `changed` is any number that grows when the session changes, ideally the time in nanoseconds, which
    the agent's own list of sessions usually has: only sessions with another number are read again.
    """

    __slots__ = ("_changed", "_queries", "database", "session")

    is_appendable = False

    def __init__(self, database: Path, session: str, queries: tuple[str, ...], changed: int) -> None:
        self.database = database
        self.session = session
        self._queries = queries
        self._changed = changed

    @property
    def path(self) -> Path:
        """The name of the session, below the database file."""
        return self.database / (quote(self.session, safe="") + _ROWS)

    @staticmethod
    def session_at(path: Path) -> tuple[Path, str]:
        """The database and the session that a path refers to."""
        return path.parent, unquote(path.name.removesuffix(_ROWS))

    def stamp(self, known: Stamp | None = None) -> Stamp | None:
        """Return the stamp; None without rows. The rows are only measured if `changed` differs from the known stamp."""
        if known is not None and known.changed == self._changed:
            return known
        try:
            size = len(self._rows())
        except FileNotFoundError:
            return None
        except OSError:
            # Busy or damaged, which is not the same as gone: reading it reports the reason.
            return known or Stamp(0, 0, 0, self._changed)
        return Stamp(0, 0, size, self._changed) if size else None

    def modified(self) -> int:
        """Return the number that the session was found with."""
        return self._changed

    def open(self) -> ByteStream:
        """Open the rows as they are now."""
        return BytesIO(self._rows())

    def position(self, line: int, offset: int) -> str:  # noqa: ARG002 - a row has no offset that could be looked up
        """Return the number of the row."""
        return f"row {line}"

    def _rows(self) -> bytes:
        encode = msgspec.json.Encoder().encode_lines
        return b"".join(encode(query(self.database, sql, session=self.session)) for sql in self._queries)


def query(database: Path, sql: str, **parameters: Any) -> list[dict[str, Any]]:
    """Select rows of an agent's database, each as a dict. The database is only read. Raises OSError."""
    for _ in range(_MOST_ATTEMPTS):
        found = _attempt(database, sql, parameters)
        if found is not None:
            return found
    raise OSError(EBUSY, "the database changes while it is read", str(database))


def _attempt(database: Path, sql: str, parameters: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Select rows; None if they were read without locks and the database was opened or changed meanwhile."""
    import sqlite3

    for file in (database, _write_ahead_log(database)):
        if file.exists():
            fetch_file(file)
    before = _state(database)
    needs_locks = not _is_closed_write_ahead(database)
    try:
        with closing(_connect(database, needs_locks)) as connection:
            cursor = connection.execute(sql, parameters)
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor]
    except sqlite3.Error as error:
        if needs_locks or before == _state(database):
            raise OSError(EIO, str(error), str(database)) from error
        return None
    return rows if needs_locks or before == _state(database) else None


def _connect(database: Path, needs_locks: bool) -> Connection:
    import sqlite3

    mode = "mode=ro" if needs_locks else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"{database.absolute().as_uri()}?{mode}", uri=True, timeout=_BUSY_SECONDS)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    return connection


def _is_closed_write_ahead(database: Path) -> bool:
    """Whether a database is in write-ahead mode and no program has it open.

    SQLite would create files next to it for the locks of readers, although there are no other programs to lock out.
    """
    with open_file(database) as file:
        header = file.read(20)
    is_write_ahead = header[18:20] == b"\2\2"
    return is_write_ahead and not _write_ahead_log(database).exists()


def _write_ahead_log(database: Path) -> Path:
    return database.with_name(database.name + "-wal")


def _state(database: Path) -> tuple[int | bool, ...]:
    """Return what differs after another program has opened the database or written to it."""
    facts = database.stat()
    is_open = _write_ahead_log(database).exists()
    return is_open, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
