"""Archived copies of a session's files, such as those in a backup of a home directory."""

from __future__ import annotations

from ..io.files import is_inside
from .archive import FileArchive
from .database import Database


def copies_of_session(database: Database, files: FileArchive, session: int) -> list[int]:
    """Files named like those of a session that no session was read from.

    This includes their earlier versions, and copies of the files in the session's folder.
    """
    own = files.own_files(session)
    sql = """SELECT id, path FROM file WHERE machine = (SELECT machine FROM session WHERE id = ?) AND agent = ?
        AND replaced_at IS NULL AND NOT EXISTS (SELECT 1 FROM session_file WHERE session_file.file = file.id)"""
    others = database.rows(sql, session, own[0].agent) if own else []
    names = {_last_part(file.path) for file in own}
    paths = {file.path for file in own}
    found = {id: path for id, path in others if _last_part(path) in names and path not in paths}
    folders = {path.removesuffix(".jsonl") for path in found.values()}
    inner = {_last_part(file.path) for file in files.in_session_folder(session)} if own else set()
    found |= {
        id: path
        for id, path in others
        if _last_part(path) in inner and any(is_inside(path, folder) for folder in folders)
    }
    return [row.id for id in found for row in files.versions(id)]


def _last_part(path: str) -> str:
    """The name of a file, which may be on a machine with another system."""
    return path[max(path.rfind("/"), path.rfind("\\")) + 1 :]
