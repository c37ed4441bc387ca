"""The archive: the agents' files as they were scanned, and their bytes in compressed chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..core.errors import NotFoundError
from ..io.sources import FileStamp
from .blocks import Blocks
from .chunks import Chunks
from .database import Database
from .rows import FileRow

_COLUMNS = tuple("kept" if name == "archived_size" else name for name in FileRow._fields[1:])
_SELECTED = f"SELECT id, {', '.join(_COLUMNS)} FROM file"


class ArchivedFile(NamedTuple):
    """A file of a session."""

    id: int
    agent: str
    path: str


class FileArchive:
    """The files of all machines. Methods that take a path look for it on this machine."""

    def __init__(self, database: Database, chunks: Chunks, blocks: Blocks) -> None:
        """`blocks` may depend on the bytes of a file."""
        self._database = database
        self._chunks = chunks
        self._blocks = blocks

    # --- files ---

    def all(self) -> dict[str, FileRow]:
        """The files of this machine by path, including deleted ones."""
        sql = f"{_SELECTED} WHERE machine = ? AND replaced_at IS NULL"
        return {row[2]: FileRow(*row) for row in self._database.rows(sql, self._database.machine)}

    def ids(self) -> list[int]:
        """The ids of all files of this machine, and of all their versions."""
        sql = "SELECT id FROM file WHERE machine = ? ORDER BY id"
        return [int(id) for (id,) in self._database.rows(sql, self._database.machine)]

    def stamps(self) -> set[FileStamp]:
        """The path and the stamp of each file of this machine that is archived completely and not deleted."""
        # In this form, SQLite does not use the index of paths: nearly all rows are needed, and looking each of them up
        # takes longer than reading the table.
        sql = """SELECT path, device, inode, size, changed, ctime FROM file
            WHERE machine = ? AND coalesce(replaced_at, gone_at) IS NULL AND kept = size"""
        # Rows as the database returns them: there may be very many.
        return set(map(tuple, self._database.rows(sql, self._database.machine)))

    def at(self, path: str) -> FileRow | None:
        """The file at a path; None if it is not archived."""
        sql = f"{_SELECTED} WHERE machine = ? AND path = ? AND replaced_at IS NULL"
        found = self._database.rows(sql, self._database.machine, path)
        return FileRow(*found[0]) if found else None

    def get(self, id: int) -> FileRow:
        """A file by its id. Raises NotFoundError."""
        found = self._database.rows(f"{_SELECTED} WHERE id = ?", id)
        if not found:
            raise NotFoundError(f"the store has no file {id}")
        return FileRow(*found[0])

    def put(self, row: FileRow) -> int:
        """Insert or update a file, and return its id; a row with the id 0 is new."""
        if row.id:
            columns = ", ".join(f"{name} = ?" for name in _COLUMNS)
            self._database.rows(f"UPDATE file SET {columns} WHERE id = ?", *row[1:], row.id)
            return row.id
        return self._insert(row, None, None)

    def _insert(self, row: FileRow, replaced_at: float | None, replaced_by: int | None) -> int:
        values = (self._database.machine, *row[1:], replaced_at, replaced_by)
        columns, marks = ", ".join(_COLUMNS), ", ".join("?" for _ in values)
        sql = f"INSERT INTO file (machine, {columns}, replaced_at, replaced_by) VALUES ({marks}) RETURNING id"
        return int(self._database.rows(sql, *values)[0][0])

    def remove(self, id: int) -> None:
        """Delete a file with its bytes. Other versions and messages that depend on it are repacked first."""
        self._blocks.detach(id)
        self._chunks.detach(id)
        self._chunks.remove(id)
        self._database.rows("DELETE FROM growth WHERE file = ?", id)
        self._database.rows("UPDATE file SET replaced_by = NULL WHERE replaced_by = ?", id)
        self._database.rows("DELETE FROM file WHERE id = ?", id)

    # --- versions ---

    def replace(self, id: int, at: float, row: FileRow, *, until: float | None = None) -> int:
        """Insert the next version of a file, and return its id. The bytes of the previous version stay.

        With `until`, this version is not the current one either. The previous version may already be an earlier
        version of another file (see `set_for_session`), and stays one.
        """
        self._database.rows("UPDATE file SET replaced_at = ? WHERE id = ?", at, id)
        new = self._insert(row, until, None)
        self._database.rows("UPDATE file SET replaced_by = ? WHERE id = ? AND replaced_by IS NULL", new, id)
        return new

    def insert_replaced(self, row: FileRow, until: float) -> int:
        """Insert the first version of a file, which is not the current one, and return its id."""
        return self._insert(row, until, None)

    def insert_before(self, id: int, at: float, row: FileRow) -> int:
        """Insert an earlier version of a file, which the version `id` replaced, and return its id."""
        new = self._insert(row, at, id)
        self._database.rows("UPDATE file SET replaced_by = ? WHERE replaced_by = ? AND id <> ?", new, id, new)
        return new

    def all_versions(self, path: str) -> list[FileRow]:
        """The file at a path and all versions it replaced, the oldest first, whichever session was read from them."""
        sql = f"""WITH RECURSIVE version (number, age) AS (
                SELECT id, 0 FROM file WHERE machine = ? AND path = ? AND replaced_at IS NULL
                UNION ALL SELECT file.id, age + 1 FROM file JOIN version ON file.replaced_by = version.number)
            {_SELECTED} JOIN version ON version.number = file.id ORDER BY age DESC, id"""
        return [FileRow(*row) for row in self._database.rows(sql, self._database.machine, path)]

    def versions(self, id: int) -> list[FileRow]:
        """A file and the versions it replaced, the oldest first, without those that another session was read from.

        A sub-agent whose messages are in the log of its session is not another session.
        """
        found = [self.get(id)]
        sql = """SELECT id FROM file WHERE replaced_by = ? AND NOT EXISTS (
                SELECT 1 FROM session_file JOIN session ON session.id = session_file.session
                WHERE session_file.file = file.id AND NOT (session.kind = 'subagent' AND EXISTS (
                    SELECT 1 FROM session_file AS own JOIN session AS above ON above.id = own.session
                    WHERE own.file = ? AND above.machine = session.machine AND above.ref = session.ref)))
            ORDER BY id DESC LIMIT 1"""
        while earlier := self._database.rows(sql, found[-1].id, id):
            found.append(self.get(earlier[0][0]))
        return found[::-1]

    def add_growth(self, file: int, start: int, at: float, apart: float = 0.0) -> None:
        """Record that a file grew beyond its first `start` bytes, unless it did so less than `apart` seconds ago."""
        sql = "SELECT 1 FROM growth WHERE file = ? AND (at > ? OR start >= ?)"
        if not self._database.rows(sql, file, at - apart, start):
            self._database.insert("growth", "file, start, at", [(file, start, at)])

    def growth(self, file: int) -> list[tuple[int, float]]:
        """The recorded growth of a file: the number of bytes it had before, and the time."""
        sql = "SELECT start, at FROM growth WHERE file = ? ORDER BY start"
        return [(int(start), at) for start, at in self._database.rows(sql, file)]

    # --- bytes ---

    def put_chunk(self, file: int, start: int, length: int, data: bytes) -> None:
        """Add compressed bytes of a file, or replace its chunk at the same offset by a longer one."""
        self._chunks.put(file, start, length, data)

    def chunks(self, file: int, start: int = 0) -> Iterator[bytes]:
        """The bytes of a file, beginning with the chunk that contains `start`."""
        return self._chunks.read(file, start)

    def intact_chunks(self, file: int, start: int = 0) -> Iterator[tuple[int, bytes | None]]:
        """The lengths and bytes of the same chunks; None instead of the bytes if a chunk is damaged."""
        return self._chunks.intact(file, start)

    def packed_chunks(self, file: int, start: int = 0) -> Iterator[tuple[int, int, bytes]]:
        """The same chunks, each compressed on its own: start, length, data."""
        return self._chunks.packed(file, start)

    def chunk_start(self, file: int, offset: int) -> int:
        """The start of the chunk that contains the byte at `offset`."""
        return self._chunks.start_of(file, offset)

    def shrink(self, file: int, newer: int) -> None:
        """Store an old version as its difference to the version that replaced it."""
        self._chunks.shrink(file, newer)

    # --- files of sessions ---

    def set_for_session(self, session: int, files: Iterable[int]) -> None:
        """Replace the list of files that a session was read from.

        A file that no session is read from any more, because the log was moved and changed at the same time, becomes
        an earlier version of the one that took its place. Otherwise, its bytes could neither be restored nor removed.
        """
        before, now = [file.id for file in self.of_session(session)], list(files)
        self._database.rows("DELETE FROM session_file WHERE session = ?", session)
        rows = [(session, position, id) for position, id in enumerate(now)]
        self._database.insert("session_file", "session, place, file", rows)
        for id in now:
            if id not in before:
                # It may have been an earlier version of a file that is not used any more.
                condition = "id = ? AND replaced_at IS NULL AND replaced_by IS NOT NULL"
                self._database.rows(f"UPDATE file SET replaced_by = NULL WHERE {condition}", id)
        for place, id in enumerate(before):
            if now and id not in now and not _is_of_another(self._database, id, session):
                self._make_earlier(id, now[min(place, len(now) - 1)], now)

    def _make_earlier(self, id: int, newer: int, files: list[int]) -> None:
        """Make a file the earliest version of another one, unless it is a version of one of `files` already."""
        if any(row.id == id for file in files for row in self.versions(file)):
            return
        first = self.versions(newer)[0].id
        if id not in _replacements(self._database, first):
            self._database.rows("UPDATE file SET replaced_by = ? WHERE id = ?", first, id)

    def of_session(self, session: int) -> list[ArchivedFile]:
        """The files that a session was read from."""
        sql = """SELECT file.id, file.agent, file.path FROM session_file JOIN file ON file.id = session_file.file
            WHERE session_file.session = ? ORDER BY session_file.place"""
        return [ArchivedFile(*row) for row in self._database.rows(sql, session)]

    def sessions_of(self, file: int) -> list[int]:
        """The sessions that were read from a file."""
        return [int(id) for (id,) in self._database.rows("SELECT session FROM session_file WHERE file = ?", file)]

    def in_session_folder(self, session: int) -> list[ArchivedFile]:
        """Files that belong to no session, in the folder named like the log of this one, such as saved outputs."""
        path = f"file.path{self._database.bytewise}"
        # A range of paths can use an index, so that not all files of the machine are read.
        sql = f"""SELECT file.id, file.agent, file.path FROM file
            WHERE file.machine = (SELECT machine FROM session WHERE id = ?) AND {path} >= ? AND {path} < ?
            AND file.replaced_at IS NULL
            AND NOT EXISTS (SELECT 1 FROM session_file WHERE session_file.file = file.id) ORDER BY {path}"""
        folders = (file.path.removesuffix(".jsonl") for file in self.of_session(session))
        return [
            ArchivedFile(*row)
            for folder in folders
            for separator in "/\\"
            for row in self._database.rows(sql, session, folder + separator, folder + chr(ord(separator) + 1))
        ]

    def only_of_session(self, session: int) -> list[int]:
        """Files that no other session needs, including earlier versions of the session's own files."""
        own = [file.id for file in self.own_files(session)]
        if own:
            # While another session needs the log, it needs the folder of the log as well.
            own += [file.id for file in self.in_session_folder(session)]
        versions = (row.id for file in dict.fromkeys(own) for row in self.versions(file))
        return [file for file in versions if not self._is_needed(file, session)]

    def own_files(self, session: int) -> list[ArchivedFile]:
        """The files that only this session was read from."""
        return [file for file in self.of_session(session) if not self._is_needed(file.id, session)]

    def _is_needed(self, file: int, session: int) -> bool:
        """Whether a session other than this one was read from a file."""
        return any(other != session for other in self.sessions_of(file))

    def paths_of(self, files: Iterable[int]) -> list[str]:
        """The paths of some files."""
        return [self.get(id).path for id in files]

    def find_for_session(self, session: int, path: str) -> int | None:
        """The file at a path on the machine of a session: its own, or one of the session it was forked from."""
        sql = """SELECT file.id FROM file JOIN session ON session.machine = file.machine
            LEFT JOIN session_file ON session_file.session = session.id AND session_file.file = file.id
            WHERE session.id = ? AND file.path = ?
            ORDER BY session_file.file IS NULL, file.replaced_at IS NOT NULL, file.id DESC LIMIT 1"""
        found = self._database.rows(sql, session, path)
        return int(found[0][0]) if found else None

    # --- files that cannot be read ---

    def unreadable(self) -> dict[str, str]:
        """The files and folders of this machine that could not be read in the last run, with the reason."""
        sql = "SELECT path, reason FROM unreadable WHERE machine = ? ORDER BY path"
        return {row[0]: row[1] for row in self._database.rows(sql, self._database.machine)}

    def set_unreadable(self, before: Iterable[str], now: dict[str, str], at: float) -> None:
        """Replace the unreadable paths `before` with those `now`. Paths in both keep their entry."""
        known = set(before)
        for path in known - now.keys():
            sql = "DELETE FROM unreadable WHERE machine = ? AND path = ?"
            self._database.rows(sql, self._database.machine, path)
        new = [(self._database.machine, path, reason, at) for path, reason in now.items() if path not in known]
        self._database.insert("unreadable", "machine, path, reason, since", new)


def _is_of_another(database: Database, file: int, session: int) -> bool:
    """Whether another session was read from a file, except for sub-agents in the log of this one."""
    sql = """SELECT 1 FROM session_file JOIN session ON session.id = session_file.session
        JOIN session AS own ON own.id = ? AND own.id <> session.id
        WHERE session_file.file = ?
        AND NOT (session.kind = 'subagent' AND session.machine = own.machine AND session.ref = own.ref) LIMIT 1"""
    return bool(database.rows(sql, session, file))


def _replacements(database: Database, id: int) -> set[int]:
    """A version of a file, and those that replaced it."""
    found: set[int] = set()
    newer: int | None = id
    while newer is not None and newer not in found:
        found.add(newer)
        rows = database.rows("SELECT replaced_by FROM file WHERE id = ?", newer)
        newer = rows[0][0] if rows else None
    return found
