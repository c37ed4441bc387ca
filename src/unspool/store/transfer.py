"""Copies stored rows from one store to another without decoding them; data packed against other rows is repacked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeAlias

from ..core.errors import UnspoolError
from .database import Row
from .rows import FileRow
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
    """Copy the versions of a file that the other store lacks, and return the id of the newest one there.

    If the other store has the beginning of a version, the rest is added. If it has different bytes, these become an
    earlier version. With `alone`, earlier versions are not copied, because they may be unreadable.
    """
    known = target.files.at(source.files.get(id).path)
    new = known.id if known is not None else 0
    for version in _missing(source, target, id, alone=alone):
        new = _copy_version(source, target, version, new)
    return new


def has_file(source: Store, target: Store, id: int) -> bool:
    """Whether the other store has all versions of a file, or later ones."""
    return not _missing(source, target, id)


def is_newest(source: Store, target: Store, id: int) -> bool:
    """Whether the newest version of a file in the other store has the same bytes."""
    row = source.files.get(id)
    known = target.files.at(row.path)
    if known is None or known.archived_size != row.archived_size:
        return False
    return _begins_with(source, row, target, known, if_damaged=True)


def _missing(source: Store, target: Store, id: int, *, alone: bool = False) -> list[FileRow]:
    """The versions of a file that the other store lacks, the oldest first."""
    row = source.files.get(id)
    known = target.files.at(row.path)
    if known is not None and known._replace(id=id, gone_at=row.gone_at, verified=row.verified) == row:
        return []
    versions = [row] if alone else source.files.versions(id)
    if known is None:
        return versions
    # Damaged bytes do not make a new version.
    others = target.files.versions(known.id)
    is_held = any(_begins_with(target, one, source, row, if_damaged=True) for one in others)
    is_older = row.changed < known.changed
    if not (is_held and is_older):
        # The versions after the newest one that equals or continues what the other store has.
        for number in reversed(range(len(versions))):
            if _begins_with(source, versions[number], target, known):
                return versions[number if versions[number].archived_size > known.archived_size else number + 1 :]
    return [] if is_held or (is_older and row.archived_size <= known.archived_size) else [row]


def _copy_version(source: Store, target: Store, row: FileRow, before: int) -> int:
    """Copy a version of a file that follows `before`, its newest version in the other store, or 0; return its id."""
    if not before:
        new = target.files.put(row._replace(id=0))
    elif _begins_with(source, row, target, known := target.files.get(before)):
        new = target.files.put(row._replace(id=before))
        target.files.add_growth(before, known.archived_size, time.time())
    else:
        origin = "rewritten" if row.origin == "created" else row.origin
        new = target.files.replace(before, row.archived_at or time.time(), row._replace(origin=origin))
    for start, length, data in source.files.packed_chunks(row.id):
        target.files.put_chunk(new, start, length, data)
    for start, at in source.files.growth(row.id):
        target.files.add_growth(new, start, at)
    if before and new != before:
        target.files.shrink(before, new)
    return new


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
