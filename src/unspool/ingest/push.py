"""Giving sessions to another store: what this computer has on disk, and what only its own store still has."""

from __future__ import annotations

from ..store.base import Store, head_values
from ..store.rows import FileRow, SessionRow
from .change_diff import created
from .writer import counted, tools_in


def push_kept(source: Store, target: Store) -> int:
    """Copy the sessions whose files are gone; returns how many the other store did not have."""
    copied = 0
    for row in source.sessions("session.machine = ? AND session.gone_at IS NOT NULL", source.machine):
        if not target.has(row.agent, row.name):
            with target.transaction():
                _copy(source, target, row)
            copied += 1
    return copied


def _copy(source: Store, target: Store, row: SessionRow) -> None:
    id = target.new_session(row.agent, row.name, row.ref)
    files = [_copy_file(source, target, file) for file, _, _ in source.files_of(row.id)]
    for file, _, _ in source.files_beside(row.id):
        _copy_file(source, target, file)
    for table, columns in (
        ("block", "first, count, data"), ("event", "place, kind, message, at, tool, data"),
        ("place", "message, kind"), ("span", "first, last, branch, context"),
    ):  # fmt: skip
        rows = source.rows(f"SELECT {columns} FROM {table} WHERE session = ?", row.id)
        target.insert(table, f"session, {columns}", [(id, *values) for values in rows])
    tools: dict[str, str] = {}
    for message in source.messages(row.id):
        tools |= tools_in(message)
        texts, acts = counted(message, tools.get)
        target.put_texts(id, texts)
        target.put_acts(id, acts)
    sql = "SELECT touch.message, name.text FROM touch JOIN name ON name.id = touch.path WHERE touch.session = ?"
    target.put_touches(id, [(message, path) for message, path in source.rows(sql, row.id)])
    ((sealed, around),) = source.rows("SELECT sealed, around FROM session WHERE id = ?", row.id)
    target.put_head(id, head_values(source.head(row.id), source.facts(row.id), row.counts, sealed), around)
    info = source.head(row.id).info
    target.put_rest_of_usage(id, info.usage, info.models[-1] if info.models else None, None)
    target.put_session_files(id, files)
    target.set_gone(id, row.gone_at.timestamp() if row.gone_at is not None else None)
    kind, data = created(row.agent, row.name, row.messages)
    target.note(kind, id, **data)


def _copy_file(source: Store, target: Store, id: int) -> int:
    columns = "agent, path, device, inode, size, changed, kept, mark, gone_at"
    (values,) = source.rows(f"SELECT {columns} FROM file WHERE id = ?", id)
    known = target.file_at(values[1])
    if known is not None:
        return known.id
    new = target.put_file(FileRow(0, *values))
    for (start,) in source.rows("SELECT start FROM chunk WHERE file = ? ORDER BY start", id):
        ((length, data),) = source.rows("SELECT length, data FROM chunk WHERE file = ? AND start = ?", id, start)
        target.put_chunk(new, start, length, bytes(data))
    return new
