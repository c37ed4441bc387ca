"""The run log: a durable record of runs, messages, requests and decisions.

It is a small database separate from the store, because a decision must be on disk before it is sent to the agent,
however busy the store is. Entries have increasing numbers, so that live viewers can resume after the last one they saw.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..core.decisions import RecordedDecision, TurnEnd
from ..core.errors import UnspoolError
from . import decision_chain, decision_log
from .private_files import create_private, restrict_database

LIVE_TEXT_FOLDER = "live"
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
_MIGRATIONS = (_TABLES + decision_log.TABLES, decision_chain.TABLES)
"""The SQL that upgrades each version to the next one. None of it changes existing rows."""


class LogEntry(msgspec.Struct, kw_only=True):
    """Something that happened to a run."""

    seq: int
    at: datetime
    run: str
    kind: str
    data: msgspec.Raw


class OpenRun(msgspec.Struct, kw_only=True):
    """A run whose end is not in the log."""

    id: str
    agent: str
    session: str | None
    folder: str
    pid: int | None
    pid_started: float | None


class RunLocation(NamedTuple):
    """The agent that worked on a session, and its folder."""

    agent: str
    folder: str


def _entry(seq: int, at: float, run: str, kind: str, data: str) -> LogEntry:
    return LogEntry(seq=seq, at=datetime.fromtimestamp(at, UTC), run=run, kind=kind, data=msgspec.Raw(data.encode()))


class RunLog:
    """The run log. One process at a time may write to it, from any of its threads."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._lock = threading.RLock()
        try:
            address = f"{path.absolute().as_uri()}?mode=ro" if read_only else str(path)
            if not read_only:
                create_private(path)
                restrict_database(path)
            self._database = sqlite3.connect(
                address, uri=read_only, isolation_level=None, timeout=60, check_same_thread=False
            )
            if not read_only:
                self._prepare()
        except sqlite3.Error as error:
            raise UnspoolError(f"Cannot open {path}: {error}") from error

    def live_text_path(self, run: str) -> Path:
        """The path of the file with the reply that a run is writing."""
        return self.path.parent / LIVE_TEXT_FOLDER / run

    def _prepare(self) -> None:
        # A power cut must not undo a decision.
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            self._database.execute(f"PRAGMA {pragma}")
        with self._writing():
            self._migrate(decision_log.version_of(self._database))
        with self._writing():
            decision_chain.catch_up(self._database, self.path.parent)

    def _migrate(self, version: int) -> None:
        if version > len(_MIGRATIONS):
            raise UnspoolError(f"{self.path} was written by a newer version of unspool; upgrade to open it")
        for statement in ";".join(_MIGRATIONS[version:]).split(";"):
            self._database.execute(statement)
        self._database.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
        if version < decision_log.CHAIN_VERSION:
            decision_chain.start_chain(self._database)

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
                    raise UnspoolError(f"Cannot write to {self.path}: {error}") from error
                raise

    @contextmanager
    def _deciding(self) -> Iterator[Path]:
        """Write to the decision log, then update the file that names its newest row.

        The file is updated only after the rows are committed. Otherwise it could name a row that does not exist after a
        crash, as if that had been removed. The lock is acquired again, so that the last of several writers names the
        newest row.
        """
        with self._writing():
            yield self.path.parent
        with suppress(UnspoolError), self._writing():
            decision_chain.save_head(self._database, self.path.parent)

    def _rows(self, sql: str, *values: object) -> list[Any]:
        with self._lock:
            return self._database.execute(sql, values).fetchall()

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    # --- writing ---

    def record(self, run: str, kind: str, data: object) -> int:
        """Add an entry and return its number."""
        with self._writing():
            return self._record(run, kind, data)

    def _record(self, run: str, kind: str, data: object) -> int:
        sql = "INSERT INTO entry (at, run, kind, data) VALUES (?, ?, ?, ?)"
        cursor = self._database.execute(sql, (time.time(), run, kind, msgspec.json.encode(data).decode()))
        return int(cursor.lastrowid or 0)

    def start_run(self, run: str, agent: str, session: str | None, folder: str, spec: object) -> int:
        """Record that an agent is about to be started, and return the number of the entry."""
        with self._writing():
            sql = "INSERT INTO run (id, agent, session, folder, spec, started) VALUES (?, ?, ?, ?, ?, ?)"
            values = (run, agent, session, folder, msgspec.json.encode(spec).decode(), time.time())
            self._database.execute(sql, values)
            return self._record(run, "run.started", {"agent": agent, "session": session, "folder": folder})

    def set_process(self, run: str, pid: int | None, started: float | None) -> None:
        """Record the process of a run, so that it can be found if this program is killed."""
        with self._writing():
            self._database.execute("UPDATE run SET pid = ?, pid_started = ? WHERE id = ?", (pid, started, run))

    def set_session(self, run: str, session: str) -> None:
        """Record the session of a run, also in the decisions that were made before it was known."""
        with self._deciding() as folder:
            self._database.execute("UPDATE run SET session = ? WHERE id = ?", (session, run))
            decision_log.set_session(self._database, folder, run, session)

    def end_run(self, run: str, reason: str) -> int:
        """Record the end of a run, and return the number of the entry."""
        with self._writing():
            self._database.execute(
                "UPDATE run SET ended = ?, reason = ? WHERE id = ? AND ended IS NULL", (time.time(), reason, run)
            )
            return self._record(run, "run.ended", {"reason": reason})

    def record_decision(self, run: str, decision: RecordedDecision, facts: dict[str, object]) -> int:
        """Record a decision before it takes effect, and return the number of the entry."""
        with self._deciding() as folder:
            decision_log.add_decision(self._database, folder, run, decision)
            return self._record(run, "answered" if decision.request else "interrupting", facts)

    def set_turn_end(self, run: str, turn: TurnEnd) -> None:
        """Record how the turn that was last interrupted ended."""
        with self._deciding() as folder:
            decision_log.set_turn_end(self._database, folder, run, turn)

    # --- reading ---

    def last_seq(self) -> int:
        """The number of the newest entry."""
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM entry")[0][0])

    def entries(self, since: int, limit: int = 500, run: str | None = None) -> list[LogEntry]:
        """The first entries with a number above `since`, of one run or of all."""
        where, values = ("AND run = ?", [run]) if run is not None else ("", [])
        sql = f"SELECT seq, at, run, kind, data FROM entry WHERE seq > ? {where} ORDER BY seq LIMIT ?"
        return [_entry(*row) for row in self._rows(sql, since, *values, limit)]

    def entries_about(self, agent: str, session: str, kind: str) -> list[LogEntry]:
        """The entries of one kind about a session, in order. The run may have switched to another session since."""
        sql = """SELECT entry.seq, entry.at, entry.run, entry.kind, entry.data FROM entry JOIN run ON run.id = entry.run
            WHERE run.agent = ? AND entry.kind = ? AND coalesce(json_extract(entry.data, '$.session'), run.session) = ?
            ORDER BY entry.seq"""
        return [_entry(*row) for row in self._rows(sql, agent, kind, session)]

    def open_runs(self) -> list[OpenRun]:
        """The runs whose end is not in the log."""
        sql = "SELECT id, agent, session, folder, pid, pid_started FROM run WHERE ended IS NULL ORDER BY started"
        return [
            OpenRun(id=row[0], agent=row[1], session=row[2], folder=row[3], pid=row[4], pid_started=row[5])
            for row in self._rows(sql)
        ]

    def unanswered(self, run: str) -> list[str]:
        """The ids of the tool calls whose permission requests were neither answered nor withdrawn."""
        sql = """SELECT kind, json_extract(data, '$.request'), json_extract(data, '$.question.asked.id'),
            json_extract(data, '$.question.asked.call_id') FROM entry
            WHERE run = ? AND kind IN ('asked', 'answered', 'withdrawn') ORDER BY seq"""
        found: dict[str, str | None] = {}
        for kind, closed, opened, call_id in self._rows(sql, run):
            if kind == "asked":
                found[opened] = call_id
            else:
                found.pop(closed, None)
        return [call_id for call_id in found.values() if call_id]

    def last_state(self, run: str) -> tuple[str, datetime] | None:
        """The last state of a run, and the time of its last entry."""
        sql = """SELECT json_extract(data, '$.state'), (SELECT max(at) FROM entry WHERE run = ?) FROM entry
            WHERE run = ? AND kind = 'state' ORDER BY seq DESC LIMIT 1"""
        rows = self._rows(sql, run, run)
        return (rows[0][0], datetime.fromtimestamp(rows[0][1], UTC)) if rows else None

    def last_end(self, agent: str, session: str) -> float | None:
        """When the last run on a session ended; None if none has."""
        sql = "SELECT max(ended) FROM run WHERE agent = ? AND session = ?"
        ended: float | None = self._rows(sql, agent, session)[0][0]
        return ended

    def session_ends(self) -> dict[tuple[str, str], float]:
        """When the last run on each session ended, or switched to another session."""
        sql = """SELECT agent, session, max(ended) FROM (
                SELECT agent, session, ended FROM run WHERE ended IS NOT NULL
                UNION ALL SELECT run.agent, json_extract(entry.data, '$.left'), entry.at FROM entry
                JOIN run ON run.id = entry.run WHERE entry.kind = 'session'
            ) WHERE session IS NOT NULL GROUP BY agent, session"""
        return {(agent, session): ended for agent, session, ended in self._rows(sql)}

    def last_location(self, session: str, agent: str | None = None) -> RunLocation | None:
        """The agent and folder of the last run on a session, whose own log may not have been written or read yet."""
        where, values = ("AND agent = ?", [agent]) if agent is not None else ("", [])
        sql = f"SELECT agent, folder FROM run WHERE session = ? {where} ORDER BY started DESC, rowid DESC LIMIT 1"
        rows = self._rows(sql, session, *values)
        return RunLocation(*rows[0]) if rows else None

    def was_sandboxed(self, agent: str, session: str) -> bool:
        """Whether the last run on a session hid anything from its agent."""
        sql = """SELECT json_array_length(spec, '$.hidden') FROM run WHERE agent = ? AND session = ?
            ORDER BY started DESC, rowid DESC LIMIT 1"""
        rows = self._rows(sql, agent, session)
        return bool(rows and rows[0][0])

    def decisions(self, agent: str, session: str) -> list[RecordedDecision]:
        """The decisions about a session, in order."""
        with self._lock:
            return decision_log.decisions_about(self._database, agent, session)
