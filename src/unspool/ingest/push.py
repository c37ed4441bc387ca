"""Copies sessions to another store: those on disk, and those that only the store of this computer still has."""

from __future__ import annotations

from ..store import Store
from ..store.filters import SessionFilter
from ..store.rows import SessionRow
from ..store.transfer import copy_content, copy_file, copy_summary, has_file, is_newest
from .change_diff import created
from .writer import counted, tools_in


def push_archived(source: Store, target: Store) -> int:
    """Copy the sessions whose files are gone; returns how many were copied.

    Sessions that the other store already has in full, or that were forgotten there, are left out.
    """
    copied = 0
    forgotten = {(session.agent, session.name) for session in target.forgotten.all()}
    for row in source.sessions.select(SessionFilter(machine=source.machine, is_gone=True)):
        if (row.agent, row.name) not in forgotten and _is_behind(target, source, row):
            with target.exclusive(), target.transaction():
                copy_session(source, target, row)
            copied += 1
    return copied


def _is_behind(target: Store, source: Store, row: SessionRow) -> bool:
    """Whether `target` lacks a session or bytes or versions of its files, or has fewer messages from the same bytes.

    A session whose files became shorter later has fewer messages than before, and is not behind.
    """
    same = SessionFilter(machine=target.machine, agent=row.agent, name=row.name)
    known = target.sessions.select(same)
    if not known:
        return True
    files = source.files.of_session(row.id)
    if any(not has_file(source, target, file.id) for file in files):
        return True
    return known[0].messages < row.messages and all(is_newest(source, target, file.id) for file in files)


def copy_session(source: Store, target: Store, row: SessionRow) -> None:
    """Copy a session with the bytes of its files, replacing a session of the same name."""
    copy = target.sessions.create(row.agent, row.name, row.ref)
    files = [copy_file(source, target, file.id) for file in source.files.of_session(row.id)]
    for file in source.files.in_session_folder(row.id):
        copy_file(source, target, file.id)
    copy_content(source, target, row.id, copy)
    tools: dict[str, str] = {}
    for message in source.messages.read(row.id):
        tools |= tools_in(message)
        texts, usage = counted(message, tools.get)
        target.texts.add(copy, texts)
        target.usage.insert(copy, usage)
    target.usage.add_to_sums(copy, 0)
    copy_summary(source, target, row.id, copy)
    info = source.messages.load_head(row.id).info
    target.usage.set_remainder(copy, info.usage, info.models[-1] if info.models else None, None)
    target.files.set_for_session(copy, files)
    kind, data = created(row.agent, row.name, row.messages)
    target.changes.append(kind, copy, **data)
