"""The book of what happened under this supervisor: agents that ran, messages, questions, decisions. It is never torn.

It is a small database of its own beside the store: a decision must be on disk before the agent hears of it, however
busy the store is. Every line of it has a number that only grows, from which live viewers go on.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..core.decisions import RecordedDecision
from ..core.errors import UnspoolError
from ..store import decision_log

_VERSION = 1
_TABLES = """
CREATE TABLE run (
    id TEXT PRIMARY KEY, agent TEXT NOT NULL, session TEXT, folder TEXT NOT NULL, spec TEXT NOT NULL,
    pid INTEGER, pid_started REAL, started REAL NOT NULL, ended REAL, reason TEXT
);
CREATE INDEX run_open ON run (ended) WHERE ended IS NULL;
CREATE TABLE entry (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, run TEXT NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL
);
CREATE INDEX entry_run ON entry (run, seq);
"""


class Entry(msgspec.Struct, kw_only=True):
    """Something that happened to a running agent."""

    seq: int
    at: datetime
    run: str
    kind: str
    data: msgspec.Raw


class OpenRun(msgspec.Struct, kw_only=True):
    """An agent that was running when the book was last written."""

    id: str
    agent: str
    session: str | None
    folder: str
    pid: int | None
    pid_started: float | None


class Place(NamedTuple):
    """Which agent worked on a session, and where."""

    agent: str
    folder: str


class RunLog:
    """The book, opened for writing: by one program at a time, and from any of its threads."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._lock = threading.RLock()
        try:
            place = f"{path.absolute().as_uri()}?mode=ro" if read_only else str(path)
            self._database = sqlite3.connect(
                place, uri=read_only, isolation_level=None, timeout=60, check_same_thread=False
            )
            if not read_only:
                self._prepare()
        except sqlite3.Error as error:
            raise UnspoolError(f"{path} cannot be opened: {error}") from error

    def _prepare(self) -> None:
        # A decision that was given must not be taken back by a power cut.
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            self._database.execute(f"PRAGMA {pragma}")
        with self._writing():
            ((version,),) = self._database.execute("PRAGMA user_version").fetchall()
            if version > _VERSION:
                raise UnspoolError(f"{self.path} was written by a newer unspool; update this one")
            if version < _VERSION:
                for statement in (_TABLES + decision_log.TABLES).split(";"):
                    self._database.execute(statement)
                self._database.execute(f"PRAGMA user_version = {_VERSION}")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield
                self._database.execute("COMMIT")
            except BaseException as error:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise UnspoolError(f"{self.path} cannot be written: {error}") from error
                raise

    def _rows(self, sql: str, *values: object) -> list[Any]:
        with self._lock:
            return self._database.execute(sql, values).fetchall()

    def close(self) -> None:
        """Close it."""
        with self._lock:
            self._database.close()

    # --- writing ---

    def note(self, run: str, kind: str, data: object) -> int:
        """Write down what happened; returns its number."""
        with self._writing():
            return self._note(run, kind, data)

    def _note(self, run: str, kind: str, data: object) -> int:
        sql = "INSERT INTO entry (at, run, kind, data) VALUES (?, ?, ?, ?)"
        cursor = self._database.execute(sql, (time.time(), run, kind, msgspec.json.encode(data).decode()))
        return int(cursor.lastrowid or 0)

    def begin(self, run: str, agent: str, session: str | None, folder: str, spec: object) -> int:
        """An agent is about to be started."""
        with self._writing():
            sql = "INSERT INTO run (id, agent, session, folder, spec, started) VALUES (?, ?, ?, ?, ?, ?)"
            values = (run, agent, session, folder, msgspec.json.encode(spec).decode(), time.time())
            self._database.execute(sql, values)
            return self._note(run, "run.started", {"agent": agent, "session": session, "folder": folder})

    def set_process(self, run: str, pid: int | None, started: float | None) -> None:
        """Remember its process, so that it is found again if this program dies."""
        with self._writing():
            self._database.execute("UPDATE run SET pid = ?, pid_started = ? WHERE id = ?", (pid, started, run))

    def set_session(self, run: str, session: str) -> None:
        """The agent has said which session it works on."""
        with self._writing():
            self._database.execute("UPDATE run SET session = ? WHERE id = ?", (session, run))
            decision_log.set_session(self._database, run, session)

    def end(self, run: str, reason: str) -> int:
        """It has ended."""
        with self._writing():
            self._database.execute(
                "UPDATE run SET ended = ?, reason = ? WHERE id = ? AND ended IS NULL", (time.time(), reason, run)
            )
            return self._note(run, "run.ended", {"reason": reason})

    def decide(self, run: str, decision: RecordedDecision, note: dict[str, object]) -> int:
        """Write down a decision, before anybody acts on it."""
        with self._writing():
            decision_log.add_decision(self._database, run, decision)
            return self._note(run, "answered" if decision.request else "interrupting", note)

    # --- reading ---

    def last(self) -> int:
        """The number of the newest entry."""
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM entry")[0][0])

    def entries(self, since: int, limit: int = 500, run: str | None = None) -> list[Entry]:
        """What happened after a number."""
        where, values = ("AND run = ?", [run]) if run is not None else ("", [])
        sql = f"SELECT seq, at, run, kind, data FROM entry WHERE seq > ? {where} ORDER BY seq LIMIT ?"
        return [
            Entry(seq=seq, at=datetime.fromtimestamp(at, UTC), run=run, kind=kind, data=msgspec.Raw(data.encode()))
            for seq, at, run, kind, data in self._rows(sql, since, *values, limit)
        ]

    def open_runs(self) -> list[OpenRun]:
        """Agents of which no end was written."""
        sql = "SELECT id, agent, session, folder, pid, pid_started FROM run WHERE ended IS NULL ORDER BY started"
        return [
            OpenRun(id=row[0], agent=row[1], session=row[2], folder=row[3], pid=row[4], pid_started=row[5])
            for row in self._rows(sql)
        ]

    def unanswered(self, run: str) -> list[str]:
        """The calls about which an agent asked and got no answer."""
        sql = """SELECT kind, json_extract(data, '$.request'), json_extract(data, '$.question.asked.id'),
            json_extract(data, '$.question.asked.call_id') FROM entry
            WHERE run = ? AND kind IN ('asked', 'answered', 'withdrawn') ORDER BY seq"""
        found: dict[str, str | None] = {}
        for kind, ended, asked, call_id in self._rows(sql, run):
            if kind == "asked":
                found[asked] = call_id
            else:
                found.pop(ended, None)
        return [call_id for call_id in found.values() if call_id]

    def last_end(self, agent: str, session: str) -> float | None:
        """When the last agent that worked on a session has ended."""
        sql = "SELECT max(ended) FROM run WHERE agent = ? AND session = ?"
        ended: float | None = self._rows(sql, agent, session)[0][0]
        return ended

    def last_place(self, session: str, agent: str | None = None) -> Place | None:
        """Where an agent last worked on a session; the log of the session may not have been read yet, or written."""
        where, values = ("AND agent = ?", [agent]) if agent is not None else ("", [])
        sql = f"SELECT agent, folder FROM run WHERE session = ? {where} ORDER BY started DESC, rowid DESC LIMIT 1"
        rows = self._rows(sql, session, *values)
        return Place(*rows[0]) if rows else None

    def decisions(self, agent: str, session: str) -> list[RecordedDecision]:
        """The decisions about a session, in order."""
        with self._lock:
            return decision_log.decisions_about(self._database, agent, session)
