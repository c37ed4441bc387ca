"""The decisions that people made about running agents: the only code that writes and reads them.

They are in the database of the run log, in a table of their own. The run log passes its connection, so that a decision
is committed together with the entry about it. Everybody else reads with `recorded_decisions`, which is the evidence
that the application passes to readers of sessions.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from contextlib import closing
from functools import lru_cache
from pathlib import Path

import msgspec

from ..core.decisions import RecordedDecision, TurnEnd
from .locate import data_folder

FILE_NAME = "supervisor.db"
"""The database of the run log, in the data directory."""
TABLES = """
CREATE TABLE decision (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, agent TEXT NOT NULL, session TEXT, data TEXT NOT NULL
);
CREATE INDEX decision_session ON decision (agent, session);
"""
_SETTLED_SECONDS = 10.0
"""A database that was written to more recently is read again each time: its size and time may not have changed yet."""
_DECISION = msgspec.json.Decoder(RecordedDecision)
_BySession = dict[tuple[str, str], list[RecordedDecision]]


# --- for the run log -------------------------------------------------------------------------------------------------


def add_decision(connection: sqlite3.Connection, run: str, decision: RecordedDecision) -> None:
    """Insert a decision, in the transaction of the caller."""
    sql = "INSERT INTO decision (run, agent, session, data) VALUES (?, ?, ?, ?)"
    data = msgspec.json.encode(decision).decode()
    connection.execute(sql, (run, decision.agent, decision.session, data))


def set_session(connection: sqlite3.Connection, run: str, session: str) -> None:
    """Add the session to the decisions of a run that were made before it was known."""
    sql = "UPDATE decision SET session = ?, data = json_set(data, '$.session', ?) WHERE run = ? AND session IS NULL"
    connection.execute(sql, (session, session, run))


def set_turn_end(connection: sqlite3.Connection, run: str, turn: TurnEnd) -> None:
    """Add to the last interruption of a run what became of the turn."""
    sql = """UPDATE decision SET data = json_set(data, '$.turn', ?) WHERE id =
        (SELECT max(id) FROM decision WHERE run = ? AND json_extract(data, '$.verdict') = 'interrupt')"""
    connection.execute(sql, (turn, run))


def decisions_about(connection: sqlite3.Connection, agent: str, session: str) -> list[RecordedDecision]:
    """The decisions about a session, in order."""
    return _read(connection, "agent = ? AND session = ?", agent, session).get((agent, session), [])


# --- for everybody else ----------------------------------------------------------------------------------------------


def recorded_decisions(agent: str, session: str) -> list[RecordedDecision]:
    """The decisions about a session that were made on this computer, in order.

    Where they cannot be read there are none: the session's own files say what they can.
    """
    return _load("agent = ? AND session = ?", agent, session).get((agent, session), [])


def decision_mark(agent: str, session: str) -> str:
    """Short text that changes with the decisions about a session; empty if there are none."""
    return _mark(recorded_decisions(agent, session))


def decision_marks(agent: str) -> dict[str, str]:
    """The marks of all sessions with decisions."""
    found = _load("agent = ? AND session IS NOT NULL", agent)
    return {session: _mark(decisions) for (owner, session), decisions in found.items() if owner == agent}


def _mark(decisions: list[RecordedDecision]) -> str:
    return f"|{zlib.crc32(msgspec.json.encode(decisions)):x}" if decisions else ""


def _load(where: str, *values: str) -> _BySession:
    """At least the decisions that meet a condition; none where they cannot be read."""
    path = data_folder() / FILE_NAME
    stamp = _stamp(path)
    if not stamp:
        return {}
    try:
        if time.time() - max(stamp[::2]) / 1e9 > _SETTLED_SECONDS:
            return _all(path, stamp)
        with closing(_open(path)) as connection:
            return _read(connection, where, *values)
    except (sqlite3.Error, msgspec.DecodeError):
        return {}


def _stamp(path: Path) -> tuple[int, ...]:
    """Times and sizes that change when the database is written to; empty where there is none."""
    found = []
    for name in (path, f"{path}-wal"):
        try:
            stat = os.stat(name)
        except OSError:
            continue
        found += [stat.st_mtime_ns, stat.st_size]
    return tuple(found)


@lru_cache(maxsize=2)
def _all(path: Path, _: tuple[int, ...]) -> _BySession:
    with closing(_open(path)) as connection:
        return _read(connection, "session IS NOT NULL")


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)


def _read(connection: sqlite3.Connection, where: str, *values: str) -> _BySession:
    found: _BySession = {}
    rows = connection.execute(f"SELECT agent, session, data FROM decision WHERE {where} ORDER BY id", values)
    for agent, session, data in rows:
        found.setdefault((agent, session), []).append(_DECISION.decode(data))
    return found
