"""Copies sessions to another store: those on disk, and those that only the store of this computer still has."""

from __future__ import annotations

from ..store import Store
from ..store.archive import ArchivedFile
from ..store.filters import SessionFilter
from ..store.rows import SessionRow
from ..store.transfer import copy_content, copy_file, copy_summary, has_file, is_newest
from .change_diff import created
from .writer import counted, tools_in


def push_archived(source: Store, target: Store) -> int:
    """Copy the sessions whose files are gone; returns how many were copied, as a whole or in part.

    Sessions that the other store already has in full, or that were forgotten there, are left out.
    """
    forgotten = {(session.agent, session.name) for session in target.forgotten.all()}
    rows = source.sessions.select(SessionFilter(machine=source.machine, is_gone=True))
    return sum(_push(source, target, row) for row in rows if (row.agent, row.name) not in forgotten)


def _push(source: Store, target: Store, row: SessionRow) -> bool:
    """Copy what the other store lacks of a session; returns whether it lacked anything.

    If it has later versions of the session's files, it only gets the earlier ones, and its session stays as it is: a
    session whose files became shorter has fewer messages than before.
    """
    known = target.sessions.summary(row.agent, row.name)
    files = source.files.of_session(row.id)
    every = [file.id for file in (*files, *source.files.in_session_folder(row.id))]

    is_complete = known is not None and all(has_file(source, target, file) for file in every)
    has_messages = known is not None and known.messages >= row.messages
    if is_complete and has_messages:
        return False
    had_newest = _has_newest(source, target, files)
    if is_complete and not had_newest:
        return False
    with target.exclusive(), target.transaction():
        copies = [copy_file(source, target, file) for file in every][: len(files)]
        is_outdated = not (had_newest and has_messages) and _has_newest(source, target, files)
        if known is None or is_outdated or _has_earlier(target, known.id, copies):
            copy_session(source, target, row)
    return True


def _has_newest(source: Store, target: Store, files: list[ArchivedFile]) -> bool:
    """Whether the newest versions of some files in the other store have the same bytes."""
    return all(is_newest(source, target, file.id) for file in files)


def _has_earlier(target: Store, session: int, copies: list[int]) -> bool:
    """Whether a session in the other store was read from earlier versions of its files than these.

    That is so if something that is no session, or another one, has replaced the files since.
    """
    before = {file.path: file.id for file in target.files.of_session(session)}
    is_later = []
    for copy in copies:
        path = target.files.get(copy).path
        versions = [row.id for row in target.files.all_versions(path)]
        known = before.get(path)
        if known == copy or known not in versions or copy not in versions:
            return False
        is_later.append(versions.index(copy) > versions.index(known))
    return all(is_later) and bool(is_later)


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
