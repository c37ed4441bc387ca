"""The files that sessions read or changed."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from .database import Database
from .filters import LikeSql, SessionFilter, containing, escaped, like_sql
from .redacted_search import RedactedValues
from .rows import SessionRow, moment
from .sessions import Sessions

if TYPE_CHECKING:
    from ..redact import Redactor

_TABLES = """touch JOIN name ON name.id = touch.path JOIN session ON session.id = touch.session"""


class TouchedFile(NamedTuple):
    """A file, and how many sessions read or changed it."""

    path: str
    sessions: int
    ended_at: datetime | None
    """When the last of these sessions ended."""


class TouchingSession(msgspec.Struct, kw_only=True):
    """A session that read or changed a file."""

    session: SessionRow
    messages: list[int]
    """The messages with its calls."""


class FileTouch(NamedTuple):
    """A call that read or changed a file."""

    session: int
    message: int
    path: str


class TouchedFiles:
    """Finds files, and the sessions that touched them."""

    def __init__(self, database: Database, sessions: Sessions) -> None:
        self._database = database
        self._sessions = sessions

    def page(self, text: str, limit: int, offset: int = 0) -> list[TouchedFile]:
        """Files whose path contains a text, those touched by the most sessions first."""
        pattern = containing(text)
        sql = f"""SELECT name.text, count(DISTINCT touch.session), max(session.ended) FROM {_TABLES}
            WHERE {like_sql("name.text", pattern)} GROUP BY name.id, name.text
            ORDER BY 2 DESC, 3 DESC NULLS LAST, 1 LIMIT ? OFFSET ?"""
        rows = self._database.rows(sql, pattern, limit, offset)
        return [TouchedFile(path, int(sessions), moment(ended)) for path, sessions, ended in rows]

    def touches(
        self, path: str, among: SessionFilter, limit: int, offset: int = 0, *, redactor: Redactor | None = None
    ) -> list[FileTouch]:
        """The messages that touched a file, in the sessions that match a filter, the most recent first.

        The path may be relative: it matches all paths that end with it, ignoring case. With a redactor, it is compared
        with paths without their secrets.
        """
        condition = among.condition()
        end = f"%/{escaped(path.lstrip('/'))}"
        whole: str | None = path
        like: LikeSql = like_sql
        if redactor is not None:
            # No path without its secrets is equal to one that has some.
            whole = path if redactor.text(path) == path else None
            like = RedactedValues(self._database, redactor).like
        sql = f"""SELECT session.id, touch.message, name.text FROM {_TABLES}
            WHERE (name.text = ? OR {like("name.text", end)}) AND {condition.sql}
            ORDER BY session.ended DESC NULLS LAST, session.id, touch.message DESC, name.text LIMIT ? OFFSET ?"""
        return [FileTouch(*row) for row in self._database.rows(sql, whole, end, *condition.values, limit, offset)]

    def count_of(self, session: int) -> int:
        """Return the number of files that a session touched."""
        sql = "SELECT count(DISTINCT path) FROM touch WHERE session = ?"
        return int(self._database.rows(sql, session)[0][0])

    def sessions_of(self, path: str) -> list[TouchingSession]:
        """The sessions that touched a file, the most recent first."""
        sql = f"""SELECT touch.session, touch.message FROM {_TABLES} WHERE name.text = ?
            ORDER BY touch.session, touch.message"""
        found: dict[int, list[int]] = {}
        for session, message in self._database.rows(sql, path):
            found.setdefault(session, []).append(message)
        rows = self._sessions.select(SessionFilter(ids=tuple(found))) if found else []
        return [TouchingSession(session=row, messages=found[row.id]) for row in rows]
