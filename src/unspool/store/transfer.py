"""Copies stored rows from one store to another without decoding them; data packed against other rows is repacked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeAlias

from ..core.errors import UnspoolError
from .database import Row
from .rows import FileRow, Origin
from .store import Store

_MANY = 100_000
EVENTS = "event"
_TABLES = {
    EVENTS: "place, kind, message, at, tool, data",
    "place": "message, kind",
    "span": "first, last, branch, context",
}
_REFERRING = {"file": ("chunk", "session_file"), "session": ("block", "session_file")}
"""Tables with a column of ids of another table, which has its name."""
Marks: TypeAlias = dict[str, list[Row]]


def copy_content(source: Store, target: Store, session: int, copy: int) -> None:
    """Copy the messages, events, marks and touched files of a session to one in another store."""
    add_marks(target, copy, marks_of(source, session))
    target.blocks.add(copy, ((block.first, block.length, block.data) for block in source.blocks.packed(session)))
    target.texts.add_touched_files(copy, source.texts.touched_files(session))


def marks_of(store: Store, session: int) -> Marks:
    """The events of a session, and what searching and listing need to know about its messages, by table."""
    return {
        table: store.database.rows(f"SELECT {columns} FROM {table} WHERE session = ?", session)
        for table, columns in _TABLES.items()
    }


def redacted_marks(marks: Marks, redact: Callable[[bytes], bytes]) -> Marks:
    """The same with `redact` applied to the events: the rest consists of numbers and fixed words."""
    return marks | {EVENTS: [(*row[:-1], redact(bytes(row[-1]))) for row in marks[EVENTS]]}


def add_marks(store: Store, session: int, marks: Marks) -> None:
    """Add the result of `marks_of` to a session."""
    for table, rows in marks.items():
        store.database.insert(table, f"session, {_TABLES[table]}", [(session, *values) for values in rows])


def is_same(one: Store, other: Store) -> bool:
    """Whether two stores are the same database, even if their locations are written differently."""
    if one.location == other.location:
        return True
    if one.database.is_shared != other.database.is_shared:
        return False
    if not one.database.is_shared:
        return os.path.samefile(one.location, other.location)
    sql = "SELECT current_database(), pg_postmaster_start_time()"
    return one.database.rows(sql) == other.database.rows(sql)


def copy_summary(source: Store, target: Store, session: int, copy: int) -> None:
    """Copy the columns of a session that do not depend on the store."""
    columns = """kind, parent, origin, project, title, started, ended, status, messages, sealed, counts, head, facts,
        around, gone_at, plan"""
    (values,) = source.database.rows(f"SELECT {columns} FROM session WHERE id = ?", session)
    names = [name.strip() for name in columns.split(",")]
    assignments = ", ".join(f"{name} = ?" for name in names)
    target.database.rows(f"UPDATE session SET {assignments} WHERE id = ?", *values, copy)


def copy_file(source: Store, target: Store, id: int, *, alone: bool = False) -> int:
    """Copy the versions of a file that the other store lacks, and return the id of this one there.

    If the other store has the beginning of a version, the rest is added. If it has different bytes, both are kept, in
    the order in which the file had them. With `alone`, earlier versions are not copied, because they may be unreadable.
    """
    row = source.files.get(id)
    merge = _Merge(source, target, row.path)
    new = row
    for version in [row] if alone else source.files.versions(id):
        new = merge.copy(version)
    newest = merge.known[-1]
    return newest.id if newest.id == new.id or _is_same(source, row, target, newest) else new.id


def has_file(source: Store, target: Store, id: int) -> bool:
    """Whether the other store has all versions of a file, or later ones that continue them."""
    merge = _Merge(source, target, source.files.get(id).path)
    return all(merge.find(version) is not None for version in source.files.versions(id))


def is_newest(source: Store, target: Store, id: int) -> bool:
    """Whether the newest version of a file in the other store has the same bytes."""
    row = source.files.get(id)
    known = target.files.at(row.path)
    return known is not None and _is_same(source, row, target, known)


class _Merge:
    """Adds the versions of a file to those in another store. They have to be passed in their order.

    Both stores may have seen different states of the file. The order in each store is right; between versions of
    different stores, the times at which the file was changed decide.
    """

    def __init__(self, source: Store, target: Store, path: str) -> None:
        self._source = source
        self._target = target
        self._path = path
        self.known = target.files.all_versions(path)
        """The versions in the other store, the oldest first."""
        self._start = 0
        """Where the versions begin that are later than the last one that was found or added."""

    def find(self, row: FileRow) -> FileRow | None:
        """The version in the other store that has the bytes of this one, or continues it; None if there is none."""
        place = self._place_of(row)
        for index, known in enumerate(self.known[self._start :], self._start):
            # The previous version may have the same bytes, if the file was only touched. If it is longer, this one was
            # truncated.
            is_touched = index == place - 1 and known.archived_size == row.archived_size
            if (is_touched or known.changed >= row.changed) and self._holds(known, row):
                if known.changed <= row.changed and known.archived_size == row.archived_size:
                    self._start = index + 1
                return known
        return None

    def _place_of(self, row: FileRow) -> int:
        """The index of the first version that is later than this one."""
        later = (n for n in range(self._start, len(self.known)) if self.known[n].changed > row.changed)
        return next(later, len(self.known))

    def _holds(self, known: FileRow, row: FileRow) -> bool:
        if known._replace(id=row.id, gone_at=row.gone_at, verified=row.verified, origin=row.origin) == row:
            return True
        # Damaged bytes do not make a new version.
        return _begins_with(self._target, known, self._source, row, if_damaged=True)

    def copy(self, row: FileRow) -> FileRow:
        """Copy a version unless `find` finds it, and return its row in the other store."""
        known = self.find(row)
        if known is None:
            return self._add(row)
        if known.changed < row.changed:
            # The file was touched.
            known = self.known[self._start - 1] = known._replace(changed=row.changed)
            self._target.files.put(known)
        return known

    def _add(self, row: FileRow) -> FileRow:
        place = self._place_of(row)
        # Versions that are separate in one store stay so.
        before = self.known[place - 1] if place > self._start else None
        is_same_file = before is not None and before.path == row.path
        if before is not None and is_same_file and _begins_with(self._source, row, self._target, before):
            place -= 1
            new = self.known[place] = self._update(self.known[place], row)
        else:
            new = self._insert(place, row)
            self.known.insert(place, new)
        self._start = place + 1
        files = self._target.files
        for start, length, data in self._source.files.packed_chunks(row.id):
            files.put_chunk(new.id, start, length, data)
        for start, at in self._source.files.growth(row.id):
            files.add_growth(new.id, start, at)
        # The new version, or the one before if it is the newest.
        old = min(place, len(self.known) - 2)
        if old >= 0:
            files.shrink(self.known[old].id, self.known[old + 1].id)
        return new

    def _update(self, known: FileRow, row: FileRow) -> FileRow:
        """Update the row of a version that this one continues."""
        new = row._replace(id=known.id, origin=known.origin, archived_at=known.archived_at)
        self._target.files.put(new)
        growth = self._source.files.growth(row.id)
        found_at = [row.archived_at or time.time(), *(at for start, at in growth if start <= known.archived_size)]
        self._target.files.add_growth(new.id, known.archived_size, found_at[-1])
        return new

    def _insert(self, place: int, row: FileRow) -> FileRow:
        """Insert a row between two versions, or as the oldest or newest one."""
        files = self._target.files
        new = row._replace(id=0, origin=_later_origin(row) if place else row.origin)
        if place < len(self.known):
            after = self.known[place]._replace(origin=_later_origin(self.known[place]))
            files.put(after)
            self.known[place] = after
            return new._replace(id=files.insert_before(after.id, after.archived_at or time.time(), new))
        at = row.archived_at or time.time()
        # Another file may be at an earlier path of this one now.
        until = at if row.path != self._path else None
        if place:
            return new._replace(id=files.replace(self.known[-1].id, at, new, until=until))
        return new._replace(id=files.put(new) if until is None else files.insert_replaced(new, until))


def _later_origin(row: FileRow) -> Origin:
    """The origin of a version that is not the first one of its file."""
    return "rewritten" if row.origin == "created" else row.origin


def _is_same(store: Store, row: FileRow, other: Store, known: FileRow) -> bool:
    """Whether two versions have the same bytes, as far as they can be read."""
    return known.archived_size == row.archived_size and _begins_with(store, row, other, known, if_damaged=True)


def _begins_with(store: Store, whole: FileRow, other: Store, beginning: FileRow, *, if_damaged: bool = False) -> bool:
    """Whether a file begins with the bytes of another one. For pieces that are damaged, `if_damaged` is assumed."""
    if whole.archived_size < beginning.archived_size:
        return False
    # Both are in pieces of the same size, except for the last one.
    pieces = store.files.intact_chunks(whole.id)
    for _, piece in other.files.intact_chunks(beginning.id):
        _, data = next(pieces, (0, None))
        if not (if_damaged if piece is None or data is None else data.startswith(piece)):
            return False
    return True


def copy_forgotten(source: Store, target: Store) -> None:
    """Copy the list of this machine's forgotten sessions."""
    rows = source.database.rows("SELECT agent, name, path, at FROM forgotten WHERE machine = ?", source.machine)
    target.database.insert("forgotten", "machine, agent, name, path, at", [(target.machine, *row) for row in rows])


def copy_annotations(source: Store, target: Store) -> None:
    """Copy the pins, notes and tags of this machine."""
    columns = "agent, name, message, kind, text, at"
    rows = source.database.rows(f"SELECT {columns} FROM annotation WHERE machine = ?", source.machine)
    target.database.insert("annotation", f"machine, {columns}", [(target.machine, *row) for row in rows])


def ids_in(store: Store, table: str) -> Iterator[int]:
    """The ids in a table, in ascending order, except for those that cannot be read."""
    try:
        yield from [int(id) for (id,) in store.database.rows(f"SELECT id FROM {table} ORDER BY id")]
        return
    except UnspoolError:
        # A page is damaged. Rows on other pages are found one by one.
        pass
    for id in range(1, _highest_id(store, table) + 1):
        with suppress(UnspoolError):
            if store.database.rows(f"SELECT 1 FROM {table} WHERE id = ?", id):
                yield id


def _highest_id(store: Store, table: str) -> int:
    """The highest id in a table; if it cannot be read, a number well above all ids that other tables contain."""
    with suppress(UnspoolError):
        return _highest(store, table, "id")
    known = [0]
    for other in _REFERRING[table]:
        with suppress(UnspoolError):
            known.append(_highest(store, other, table))
    return max(known) + _MANY


def _highest(store: Store, table: str, column: str) -> int:
    return int(store.database.rows(f"SELECT coalesce(max({column}), 0) FROM {table}")[0][0])
