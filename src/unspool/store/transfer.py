"""Copies stored rows from one store to another without decoding them; data packed against other rows is repacked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

from ..core.errors import UnspoolError
from .database import Row
from .store import Store

_MANY = 100_000
EVENTS = "event"
_TABLES = {
    EVENTS: "place, kind, message, at, tool, data",
    "place": "message, kind",
    "span": "first, last, branch, context",
}
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


def copy_file(source: Store, target: Store, id: int) -> int:
    """Copy a file with its bytes, unless the other store has at least as many; return its id there.

    If the other store has the beginning of the file, the rest is added. If it has different bytes, these become an
    earlier version. If it does not have the file, earlier versions are copied as well.
    """
    row = source.files.get(id)
    known = target.files.at(row.path)
    if known is not None and known.kept >= row.kept:
        return known.id
    if known is None:
        return _copy_versions(source, target, id)
    if _begins_with(source.files.chunks(id), target.files.chunks(known.id)):
        new = target.files.put(row._replace(id=known.id))
        target.files.add_growth(known.id, known.kept, time.time())
    else:
        new = target.files.replace(known.id, time.time(), row._replace(origin="rewritten"))
    _copy_chunks(source, target, id, new)
    return new


def _copy_versions(source: Store, target: Store, id: int) -> int:
    """Copy a file and the versions it replaced, the oldest first; return the id of the newest."""
    new = 0
    for row in source.files.versions(id):
        before = new
        if before:
            new = target.files.replace(before, row.archived_at or time.time(), row)
        else:
            new = target.files.put(row._replace(id=0))
        _copy_chunks(source, target, row.id, new)
        for start, at in source.files.growth(row.id):
            target.files.add_growth(new, start, at)
        if before:
            target.files.shrink(before, new)
    return new


def _copy_chunks(source: Store, target: Store, id: int, new: int) -> None:
    for start, length, data in source.files.packed_chunks(id):
        target.files.put_chunk(new, start, length, data)


def _begins_with(whole: Iterator[bytes], beginning: Iterator[bytes]) -> bool:
    """Whether a file begins with the bytes of another. Both are in pieces of the same size, except for the last one."""
    return all(next(whole, b"").startswith(piece) for piece in beginning)


def copy_forgotten(source: Store, target: Store) -> None:
    """Copy the list of this machine's forgotten sessions."""
    rows = source.database.rows("SELECT agent, name, path, at FROM forgotten WHERE machine = ?", source.machine)
    target.database.insert("forgotten", "machine, agent, name, path, at", [(target.machine, *row) for row in rows])


def copy_annotations(source: Store, target: Store) -> None:
    """Copy the pins, notes and tags of this machine."""
    columns = "agent, name, message, kind, text, at"
    rows = source.database.rows(f"SELECT {columns} FROM annotation WHERE machine = ?", source.machine)
    target.database.insert("annotation", f"machine, {columns}", [(target.machine, *row) for row in rows])


def highest_id(store: Store, table: str) -> int:
    """The highest id in a table, or a large number if it cannot be read."""
    try:
        return int(store.database.rows(f"SELECT coalesce(max(id), 0) FROM {table}")[0][0])
    except UnspoolError:
        return _MANY
