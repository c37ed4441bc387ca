"""The archive: the agents' files as they were scanned, and their bytes in compressed chunks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..core.errors import DamagedError
from .compression import unpack
from .damage import ADVICE
from .database import Database
from .rows import FileRow

_COLUMNS = "agent, path, device, inode, size, changed, kept, mark, gone_at"


class ArchivedFile(NamedTuple):
    """A file of a session."""

    id: int
    agent: str
    path: str


class FileArchive:
    """Files of all machines. Methods that take a path mean this machine."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- files ---

    def all(self) -> dict[str, FileRow]:
        """The files of this machine by path, including deleted ones."""
        sql = f"SELECT id, {_COLUMNS} FROM file WHERE machine = ? AND replaced_at IS NULL"
        return {row[2]: FileRow(*row) for row in self._database.rows(sql, self._database.machine)}

    def at(self, path: str) -> FileRow | None:
        """The file at a path."""
        sql = f"SELECT id, {_COLUMNS} FROM file WHERE machine = ? AND path = ? AND replaced_at IS NULL"
        found = self._database.rows(sql, self._database.machine, path)
        return FileRow(*found[0]) if found else None

    def get(self, id: int) -> FileRow:
        """A file by its id."""
        (row,) = self._database.rows(f"SELECT id, {_COLUMNS} FROM file WHERE id = ?", id)
        return FileRow(*row)

    def put(self, row: FileRow) -> int:
        """Insert or update a file, and return its id; a row with the id 0 is new."""
        if row.id:
            columns = ", ".join(f"{name} = ?" for name in _COLUMNS.split(", "))
            self._database.rows(f"UPDATE file SET {columns} WHERE id = ?", *row[1:], row.id)
            return row.id
        sql = f"INSERT INTO file (machine, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
        return int(self._database.rows(sql, self._database.machine, *row[1:])[0][0])

    def mark_replaced(self, id: int) -> None:
        """Keep the bytes of a file although its path now has another one."""
        self._database.rows("UPDATE file SET replaced_at = ? WHERE id = ?", time.time(), id)

    def remove(self, id: int) -> None:
        """Delete a file with its bytes."""
        self.remove_chunks(id)
        self._database.rows("DELETE FROM file WHERE id = ?", id)

    # --- bytes ---

    def add_chunk(self, file: int, start: int, length: int, data: bytes) -> None:
        """Add compressed bytes of a file."""
        self._database.insert("chunk", "file, start, length, data", [(file, start, length, data)])

    def chunks(self, file: int, start: int = 0) -> Iterator[bytes]:
        """The bytes of a file, beginning with the chunk that contains `start`."""
        for begin, length, data in self.packed_chunks(file, start):
            try:
                yield unpack(data)
            except DamagedError as error:
                where = f"{self.get(file).path}: bytes {begin} to {begin + length - 1}"
                raise DamagedError(f"{where} are damaged in the store: {error}; {ADVICE}") from error

    def packed_chunks(self, file: int, start: int = 0) -> Iterator[tuple[int, int, bytes]]:
        """The same chunks still compressed: start, length, data."""
        sql = "SELECT start FROM chunk WHERE file = ? AND start + length > ? ORDER BY start"
        for (begin,) in self._database.rows(sql, file, start):
            sql = "SELECT length, data FROM chunk WHERE file = ? AND start = ?"
            ((length, data),) = self._database.rows(sql, file, begin)
            yield begin, length, bytes(data)

    def chunk_start(self, file: int, offset: int) -> int:
        """Where the chunk with a byte begins."""
        sql = "SELECT coalesce(max(start), 0) FROM chunk WHERE file = ? AND start <= ?"
        return int(self._database.rows(sql, file, offset)[0][0])

    def remove_chunks(self, file: int, start: int = 0) -> None:
        """Delete the chunks of a file from an offset on."""
        self._database.rows("DELETE FROM chunk WHERE file = ? AND start >= ?", file, start)

    # --- files of sessions ---

    def set_for_session(self, session: int, files: Iterable[int]) -> None:
        """Replace the list of files that a session was read from."""
        self._database.rows("DELETE FROM session_file WHERE session = ?", session)
        rows = [(session, position, id) for position, id in enumerate(files)]
        self._database.insert("session_file", "session, place, file", rows)

    def of_session(self, session: int) -> list[ArchivedFile]:
        """The files that a session was read from."""
        sql = """SELECT file.id, file.agent, file.path FROM session_file JOIN file ON file.id = session_file.file
            WHERE session_file.session = ? ORDER BY session_file.place"""
        return [ArchivedFile(*row) for row in self._database.rows(sql, session)]

    def beside_session(self, session: int) -> list[ArchivedFile]:
        """Files of no session in the folder that is named like the log of this one, such as saved outputs."""
        found = []
        for file in self.of_session(session):
            folder = file.path.removesuffix(".jsonl")
            sql = """SELECT file.id, file.agent, file.path FROM file JOIN session ON session.machine = file.machine
                WHERE session.id = ? AND substr(file.path, 1, ?) IN (?, ?) AND file.replaced_at IS NULL
                AND NOT EXISTS (SELECT 1 FROM session_file WHERE session_file.file = file.id) ORDER BY file.path"""
            inside = (f"{folder}/", f"{folder}\\")
            found += [ArchivedFile(*row) for row in self._database.rows(sql, session, len(folder) + 1, *inside)]
        return found

    def only_of_session(self, session: int) -> list[int]:
        """Files that no other session needs, including earlier versions of the session's own files."""
        sql = """SELECT id FROM file WHERE (machine, path) IN (
                SELECT file.machine, file.path FROM session_file JOIN file ON file.id = session_file.file
                WHERE session_file.session = ?)
            AND id NOT IN (SELECT file FROM session_file WHERE session <> ?)"""
        files = [int(row[0]) for row in self._database.rows(sql, session, session)]
        if files:
            # While another session needs the log, it needs the folder of the log as well.
            files += [file.id for file in self.beside_session(session)]
        return files

    def find_for_session(self, session: int, path: str) -> int | None:
        """The file at a path on the machine of a session: its own, or one of the session it was forked from."""
        sql = """SELECT file.id FROM file JOIN session ON session.machine = file.machine
            WHERE session.id = ? AND file.path = ? ORDER BY file.replaced_at IS NOT NULL, file.id DESC LIMIT 1"""
        found = self._database.rows(sql, session, path)
        return int(found[0][0]) if found else None
