"""The table of sessions: listing, finding, and the rows that ingestion writes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from ..core.errors import AmbiguousError, UnspoolError
from ..core.resolve import LATEST, looks_like_path, no_sessions, resolve_name
from ..core.session import Session
from ..io.files import name_of
from .archive import FileArchive
from .blocks import Blocks
from .compression import pack
from .damage import SessionDamage
from .database import Database, Row
from .filters import LIVE, SessionFilter
from .message_patches import MessagePatches
from .messages import StoredMessages
from .rows import READ_AGAIN, REDACTED, SessionRow, StoredSession, moment
from .text_index import TextIndex
from .usage_rows import SUM_TABLES, UsageTable

COLUMNS = """session.id, machine.name, session.agent, session.name, session.ref, session.kind, session.parent,
    session.origin, session.project, session.title, session.started, session.ended, session.status, session.messages,
    session.counts, session.gone_at"""
"""The columns that `session_row` expects."""
SessionOrder = Literal["recent", "started", "messages", "title", "oldest"]
_ORDERS: dict[SessionOrder, str] = {
    "recent": "session.ended DESC NULLS LAST, session.id DESC",
    "started": "session.started DESC NULLS LAST, session.id DESC",
    "messages": "session.messages DESC, session.id DESC",
    "title": "lower(session.title) NULLS LAST, session.id",
    "oldest": "session.started, session.id",
}
SUMMARY_COLUMNS = ("status", "title", "parent", "origin", "project")
"""The columns whose changes are written to the change log."""
_CONTENT_TABLES = ("block", "event", "place", "span", "touch", "act", *SUM_TABLES)
"""Tables with rows that belong to one session."""
_NO_LIMIT = 2**53


class SessionSummary(NamedTuple):
    """The values that are compared before and after a session is written, for the change log."""

    id: int
    messages: int
    counts: dict[str, int]
    is_gone: bool
    columns: dict[str, object]


class GroupCount(NamedTuple):
    """The sessions that have the same value in a column."""

    value: str | None
    sessions: int
    ended_at: datetime | None
    """When the last of them ended."""


class ProjectCount(NamedTuple):
    """The sessions of one agent in one project."""

    path: str
    agent: str
    sessions: int
    ended_at: datetime | None


class Sessions:
    """The stored sessions. Methods that take an agent only consider the sessions of this machine."""

    def __init__(
        self,
        database: Database,
        files: FileArchive,
        messages: StoredMessages,
        blocks: Blocks,
        texts: TextIndex,
        usage: UsageTable,
    ) -> None:
        self._database = database
        self._files = files
        self._messages = messages
        self._blocks = blocks
        self._texts = texts
        self._usage = usage

    # --- reading ---

    def select(
        self,
        filter: SessionFilter | None = None,
        *,
        order: SessionOrder = "recent",
        live_since: float | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[SessionRow]:
        """Sessions, the most recent first. With `live_since`, those an agent may be working on come before the rest."""
        where, values = (filter or SessionFilter()).condition()
        live, given = ("", []) if live_since is None else (f"CASE WHEN {LIVE} THEN 0 ELSE 1 END, ", [live_since])
        sql = f"""SELECT {COLUMNS} FROM session JOIN machine ON machine.id = session.machine
            WHERE {where} ORDER BY {live}{_ORDERS[order]} LIMIT ? OFFSET ?"""
        rows = self._database.rows(sql, *values, *given, _NO_LIMIT if limit is None else limit, offset)
        return [session_row(row) for row in rows]

    def count(self, filter: SessionFilter | None = None) -> int:
        """Return the number of sessions that match."""
        where, values = (filter or SessionFilter()).condition()
        return int(self._database.rows(f"SELECT count(*) FROM session WHERE {where}", *values)[0][0])

    def count_by(self, column: Literal["agent", "project"], filter: SessionFilter) -> list[GroupCount]:
        """Return the number of sessions that match, for each value of a column."""
        where, values = filter.condition()
        sql = f"SELECT {column}, count(*), max(ended) FROM session WHERE {where} GROUP BY {column} ORDER BY {column}"
        return [
            GroupCount(value, int(count), moment(ended)) for value, count, ended in self._database.rows(sql, *values)
        ]

    def get(self, id: int) -> SessionRow | None:
        """A session by its row id; None if there is none."""
        found = self.select(SessionFilter(ids=(id,)))
        return found[0] if found else None

    def find(self, name: str, *, is_exact: bool = False) -> SessionRow:
        """Find a session by path, id, unique prefix of an id, or `latest`; see `core.resolve`.

        Several machines may have a session with the same id. Then the most recent one is returned; with `is_exact`, for
        commands that remove or write, AmbiguousError is raised instead.
        """
        if name == LATEST:
            mains = self.select(SessionFilter(kind="main", is_empty=False), limit=1)
            if not mains:
                raise no_sessions()
            return mains[0]
        if looks_like_path(name) and (read := self._read_from(name)) is not None:
            return read
        # The databases have an index for whole names, but none for case-insensitive prefixes.
        candidates = self.select(SessionFilter(name=name)) or self.select(SessionFilter(name_like=name))
        found = resolve_name(name, candidates, _name_of, self.count)
        if is_exact and len(found) > 1:
            raise AmbiguousError(f"{name!r} exists on several machines: {', '.join(row.machine for row in found)}")
        return found[0]

    def _read_from(self, path: str) -> SessionRow | None:
        """The session that was read from a file; not one of the sub-agents in the same file."""
        found = self.select(SessionFilter(file=name_of(Path(os.path.expanduser(path)).absolute())))
        return min(found, key=lambda row: row.kind != "main", default=None)

    def projects(self) -> Iterator[ProjectCount]:
        """The number of main sessions by project and agent."""
        sql = """SELECT project, agent, count(*), max(ended) FROM session WHERE kind = 'main' AND project IS NOT NULL
            GROUP BY project, agent"""
        for path, agent, count, ended in self._database.rows(sql):
            yield ProjectCount(path, agent, int(count), moment(ended))

    def not_marked_gone(self, among: tuple[int, ...] | None = None) -> set[int]:
        """The ids of this machine's sessions whose files existed when they were last checked."""
        where, values = SessionFilter(ids=among, machine=self._database.machine, is_gone=False).condition()
        return {int(id) for (id,) in self._database.rows(f"SELECT id FROM session WHERE {where}", *values)}

    # --- for ingestion ---

    def from_source(self, agent: str, ref: str, ids: Iterable[int] | None = None) -> dict[str, StoredSession]:
        """The sessions that were read from one source, by name: usually one.

        With `ids`, only these sessions are considered, which is faster: there is no index for sources.
        """
        sql = "SELECT id, name, messages, sealed, around FROM session WHERE machine = ? AND agent = ? AND ref = ?"
        given = (self._database.machine, agent, ref)
        if ids is None:
            rows = self._database.rows(sql, *given)
        else:
            rows = [row for id in ids for row in self._database.rows(f"{sql} AND id = ?", *given, id)]
        return {row[1]: StoredSession(*row) for row in rows}

    def ids_by_source(self, agent: str) -> dict[str, list[int]]:
        """The ids of the sessions that were read from each source."""
        found: dict[str, list[int]] = {}
        sql = "SELECT ref, id FROM session WHERE machine = ? AND agent = ?"
        for ref, id in self._database.rows(sql, self._database.machine, agent):
            found.setdefault(ref, []).append(id)
        return found

    def fingerprints(self, agent: str) -> dict[str, str]:
        """The fingerprint of each source when it was last read."""
        # The last row of a source wins: a session that it still contains, and preferably one to be read again.
        sql = """SELECT ref, around FROM session WHERE machine = ? AND agent = ?
            ORDER BY gone_at IS NULL, around = ?"""
        return {row[0]: row[1] for row in self._database.rows(sql, self._database.machine, agent, READ_AGAIN)}

    def exists(self, agent: str, name: str) -> bool:
        """Whether a session is stored."""
        filter = SessionFilter(machine=self._database.machine, agent=agent, name=name)
        return self.count(filter) > 0

    def has_unsettled(self, agent: str) -> bool:
        """Whether some sessions have to be read as a whole, for example because they have grown."""
        sql = """SELECT 1 FROM session
            WHERE machine = ? AND agent = ? AND around IN ('', ?) AND gone_at IS NULL LIMIT 1"""
        return bool(self._database.rows(sql, self._database.machine, agent, READ_AGAIN))

    def has_redacted(self) -> bool:
        """Whether sessions of this machine were stored without their secrets."""
        sql = "SELECT 1 FROM session WHERE machine = ? AND around LIKE ? LIMIT 1"
        return bool(self._database.rows(sql, self._database.machine, f"{REDACTED}%"))

    def fingerprint(self, id: int) -> str:
        """The fingerprint of a session, empty if there is no such session."""
        found = self._database.rows("SELECT around FROM session WHERE id = ?", id)
        return str(found[0][0]) if found else ""

    def has_open(self, agent: str) -> bool:
        """Whether an agent had any session open when it was last read."""
        sql = "SELECT 1 FROM session WHERE machine = ? AND agent = ? AND status IN ('running', 'waiting') LIMIT 1"
        return bool(self._database.rows(sql, self._database.machine, agent))

    def present(self, agent: str) -> Iterator[tuple[int, str, str | None]]:
        """Iterate over the sessions that are not marked as gone: id, source, and the path of each of their files.

        The path is None if a file is gone or has been replaced.
        """
        sql = """SELECT session.id, session.ref, file.path FROM session
            LEFT JOIN session_file ON session_file.session = session.id
            LEFT JOIN file ON file.id = session_file.file AND file.gone_at IS NULL AND file.replaced_at IS NULL
            WHERE session.machine = ? AND session.agent = ? AND session.gone_at IS NULL"""
        for row in self._database.iterate(sql, self._database.machine, agent):
            yield row[0], row[1], row[2]

    def summary(self, agent: str, name: str) -> SessionSummary | None:
        """The summary of a session; None if it is not stored."""
        sql = f"""SELECT id, messages, counts, gone_at, {", ".join(SUMMARY_COLUMNS)} FROM session
            WHERE machine = ? AND agent = ? AND name = ?"""
        found = self._database.rows(sql, self._database.machine, agent, name)
        if not found:
            return None
        id, messages, counts, gone_at, *values = found[0]
        columns = dict(zip(SUMMARY_COLUMNS, values, strict=True))
        return SessionSummary(id, messages, json.loads(counts), gone_at is not None, columns)

    # --- writing ---

    def create(self, agent: str, name: str, ref: str) -> int:
        """Insert an empty session. A session of this name from another source is emptied and reused."""
        sql = "SELECT id FROM session WHERE machine = ? AND agent = ? AND name = ?"
        for (id,) in self._database.rows(sql, self._database.machine, agent, name):
            self.clear(id)
            self._database.rows("UPDATE session SET ref = ? WHERE id = ?", ref, id)
            return int(id)
        columns = "machine, agent, name, ref, kind, status, messages, sealed, counts, head, facts, around"
        sql = f"""INSERT INTO session ({columns})
            VALUES (?, ?, ?, ?, 'main', 'empty', 0, 0, '{{}}', ?, ?, '') RETURNING id"""
        return int(self._database.rows(sql, self._database.machine, agent, name, ref, b"", b"")[0][0])

    def clear(self, id: int) -> None:
        """Remove the content of a session before it is written again."""
        messages = self._messages.read(id)
        if SessionDamage(id, "corrections") in self._messages.damaged:
            self._texts.remove_unknown(id)
        else:
            self._texts.remove(id, messages)
        for table in _CONTENT_TABLES:
            self._database.rows(f"DELETE FROM {table} WHERE session = ?", id)
        self._database.rows("UPDATE session SET messages = 0, sealed = 0 WHERE id = ?", id)

    def remove_tail(self, id: int, first: int) -> None:
        """Remove the messages from `first` on, which are about to be written again; their texts stay in the index."""
        self._blocks.remove_from(id, first)
        self._usage.remove_from(id, first)
        self._texts.remove_touched_from(id, first)

    def update(self, id: int, values: dict[str, object], fingerprint: str) -> None:
        """Update the row of a session with the result of `session_values`."""
        values = {**values, "around": fingerprint, "gone_at": None}
        columns = ", ".join(f"{name} = ?" for name in values)
        self._database.rows(f"UPDATE session SET {columns} WHERE id = ?", *values.values(), id)

    def update_progress(self, id: int, messages: int, sealed: int, ended: float | None) -> None:
        """Record that a session has grown. Its other columns are out of date until it is read as a whole."""
        sql = """UPDATE session SET messages = ?, sealed = ?, ended = coalesce(?, ended), gone_at = NULL, around = ''
            WHERE id = ?"""
        self._database.rows(sql, messages, sealed, ended, id)

    def read_again(self, id: int) -> None:
        """Make the next run read a session from its files and write all of it again."""
        self._database.rows("UPDATE session SET around = ? WHERE id = ?", READ_AGAIN, id)

    def set_unsettled(self, id: int) -> None:
        """Make the next run read a session as a whole."""
        self._database.rows("UPDATE session SET around = '' WHERE id = ?", id)

    def set_gone(self, id: int, at: float | None) -> bool:
        """Mark a session whose files were deleted, and return whether it was not marked before."""
        sql = "UPDATE session SET gone_at = ? WHERE id = ? AND gone_at IS NULL RETURNING id"
        return bool(self._database.rows(sql, at, id))

    def gone_at(self, id: int) -> float | None:
        """When the files of a session were found to be deleted; None if they were not."""
        ((at,),) = self._database.rows("SELECT gone_at FROM session WHERE id = ?", id)
        return None if at is None else float(at)

    def rename_files(self, id: int, names: dict[str, str]) -> None:
        """Replace paths in the record of a session that was read from copies of its files."""
        head = self._messages.load_head(id)
        for file in head.info.files:
            file.path = names.get(file.path, file.path)
        self._database.rows("UPDATE session SET head = ? WHERE id = ?", pack(msgspec.json.encode(head)), id)

    def delete(self, id: int) -> None:
        """Delete a session, and the archived bytes that no other session needs."""
        self.clear(id)
        files = self._files.only_of_session(id)
        self._files.set_for_session(id, [])
        self._database.rows("DELETE FROM session WHERE id = ?", id)
        for file in files:
            self._files.remove(file)


def check_removable(database: Database, row: SessionRow, *, of_any_machine: bool) -> None:
    """Raise UnspoolError if a session belongs to another machine (unless `of_any_machine`) or another role."""
    is_own = database.rows("SELECT machine FROM session WHERE id = ?", row.id) == [(database.machine,)]
    if not is_own and not of_any_machine:
        raise UnspoolError(
            f"{row.name} is a session of {row.machine}; remove it there, or add --any-machine to do it from here"
        )
    if not database.may_change(row.id):
        raise UnspoolError(f"{row.name} belongs to another role of the database; only that role can remove it")


def session_values(head: Session, patches: MessagePatches, counts: dict[str, int], sealed: int) -> dict[str, object]:
    """The columns of a session, by name."""
    info = head.info
    project = (info.project.path or info.project.name) if info.project is not None else None
    return {
        "kind": info.kind, "parent": info.parent, "origin": info.origin.session, "project": project,
        "title": info.title, "started": _seconds(info.started_at), "ended": _seconds(info.ended_at),
        "status": info.status, "messages": counts["messages"], "sealed": sealed, "counts": json.dumps(counts),
        "head": pack(msgspec.json.encode(head)), "facts": pack(msgspec.json.encode(patches)),
        "plan": info.plan,
    }  # fmt: skip


def session_row(row: Row) -> SessionRow:
    """A session from the values of `COLUMNS`."""
    return SessionRow(
        id=row[0],
        machine=row[1],
        agent=row[2],
        name=row[3],
        ref=row[4],
        kind=row[5],
        parent=row[6],
        origin=row[7],
        project=row[8],
        title=row[9],
        started_at=moment(row[10]),
        ended_at=moment(row[11]),
        status=row[12],
        messages=row[13],
        counts=json.loads(row[14]),
        gone_at=moment(row[15]),
    )


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _name_of(row: SessionRow) -> str:
    return row.name
