"""Copies stored rows from one store to another without decoding them."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ..core.errors import UnspoolError
from .store import Store

_MANY = 100_000
_TABLES = (
    ("block", "first, count, data"),
    ("event", "place, kind, message, at, tool, data"),
    ("place", "message, kind"),
    ("span", "first, last, branch, context"),
)


def copy_content(source: Store, target: Store, session: int, copy: int) -> None:
    """Copy the messages, events, marks and touched files of a session to one in another store."""
    for table, columns in _TABLES:
        rows = source.database.rows(f"SELECT {columns} FROM {table} WHERE session = ?", session)
        target.database.insert(table, f"session, {columns}", [(copy, *values) for values in rows])
    target.texts.add_touched_files(copy, source.texts.touched_files(session))


def copy_summary(source: Store, target: Store, session: int, copy: int) -> None:
    """Copy what is known about a session as a whole."""
    columns = """kind, parent, origin, project, title, started, ended, status, messages, sealed, counts, head, facts,
        around, gone_at"""
    (values,) = source.database.rows(f"SELECT {columns} FROM session WHERE id = ?", session)
    names = [name.strip() for name in columns.split(",")]
    assignments = ", ".join(f"{name} = ?" for name in names)
    target.database.rows(f"UPDATE session SET {assignments} WHERE id = ?", *values, copy)


def copy_file(source: Store, target: Store, id: int) -> int:
    """Copy a file with its bytes, unless the other store has as many of them; returns its id there.

    A file that the other store has the beginning of is completed. Other bytes stay there as an earlier version.
    """
    row = source.files.get(id)
    known = target.files.at(row.path)
    if known is not None and known.kept >= row.kept:
        return known.id
    if known is None:
        new = target.files.put(row._replace(id=0))
    elif _begins_with(source.files.chunks(id), target.files.chunks(known.id)):
        new = target.files.put(row._replace(id=known.id))
        target.files.add_growth(known.id, known.kept, time.time())
    else:
        new = target.files.replace(known.id, time.time(), row._replace(origin="rewritten"))
    for start, length, data in source.files.packed_chunks(id):
        target.files.put_chunk(new, start, length, data)
    return new


def _begins_with(whole: Iterator[bytes], beginning: Iterator[bytes]) -> bool:
    """Whether the bytes of one file are the beginning of another; both are in pieces of the same size, but the last."""
    return all(next(whole, b"").startswith(piece) for piece in beginning)


def copy_forgotten(source: Store, target: Store) -> None:
    """Copy which sessions of this machine are not imported again."""
    rows = source.database.rows("SELECT agent, name, path, at FROM forgotten WHERE machine = ?", source.machine)
    target.database.insert("forgotten", "machine, agent, name, path, at", [(target.machine, *row) for row in rows])


def highest_id(store: Store, table: str) -> int:
    """The highest id in a table, or one that is higher where that cannot be read."""
    try:
        return int(store.database.rows(f"SELECT coalesce(max(id), 0) FROM {table}")[0][0])
    except UnspoolError:
        return _MANY
