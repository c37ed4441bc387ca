"""Copies stored rows from one store to another without decoding them."""

from __future__ import annotations

from .store import Store

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
    """Copy a file with its bytes, unless the other store has it; returns its id there."""
    row = source.files.get(id)
    known = target.files.at(row.path)
    if known is not None:
        return known.id
    new = target.files.put(row._replace(id=0))
    for start, length, data in source.files.packed_chunks(id):
        target.files.put_chunk(new, start, length, data)
    return new
