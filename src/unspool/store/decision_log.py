"""The decisions that people made about running agents: the only code that writes and reads them.

They have their own table in the database of the run log. The run log passes its connection, so that a decision is
committed together with the entry about it. Rows are only appended, as links of a hash chain: facts that become known
later about a decision are added as another row, which readers combine with it. All other code uses
`recorded_decisions`; the application passes the result to session readers as evidence.
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

from ..core import typed_json
from ..core.decisions import RecordedDecision, TurnEnd
from . import decision_chain
from .decision_chain import Content
from .locate import data_folder

FILE_NAME = "supervisor.db"
"""The database of the run log, in the data directory."""
TABLES = """
CREATE TABLE decision (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, agent TEXT NOT NULL, session TEXT, data TEXT NOT NULL
);
CREATE INDEX decision_session ON decision (agent, session);
"""
CHAIN_VERSION = 2
"""The first version of the run log in which the decisions are a chain."""
_SETTLED_SECONDS = 10.0
"""A database that was written to more recently is read again each time: its size and time may not have changed yet."""
UNKNOWN = "|?"
"""The mark of unreadable decisions: sessions that were read without them are read again once they are readable."""
_DECISION = typed_json.decoder(RecordedDecision)
_BySession = dict[tuple[str, str], list[RecordedDecision]]


# --- for the run log -------------------------------------------------------------------------------------------------


def add_decision(connection: sqlite3.Connection, folder: Path, run: str, decision: RecordedDecision) -> None:
    """Append a decision, in the transaction of the caller."""
    content = Content("decision", _json(decision), run=run, agent=decision.agent, session=decision.session)
    decision_chain.append(connection, folder, content)


def set_session(connection: sqlite3.Connection, folder: Path, run: str, session: str) -> None:
    """Append the session to the decisions of a run that were made before it was known."""
    sql = "SELECT id, agent FROM decision WHERE run = ? AND session IS NULL AND kind = 'decision' ORDER BY id"
    for id, agent in connection.execute(sql, (run,)).fetchall():
        decision_chain.append(
            connection, folder, Content("session", _json({"session": session}), id, run, agent, session)
        )
        connection.execute("UPDATE decision SET session = ? WHERE id = ?", (session, id))


def set_turn_end(connection: sqlite3.Connection, folder: Path, run: str, turn: TurnEnd) -> None:
    """Append to the last interruption of a run how the turn ended."""
    sql = """SELECT id, agent, session FROM decision WHERE run = ? AND kind = 'decision'
        AND json_extract(data, '$.verdict') = 'interrupt' ORDER BY id DESC LIMIT 1"""
    for id, agent, session in connection.execute(sql, (run,)).fetchall():
        decision_chain.append(connection, folder, Content("turn", _json({"turn": turn}), id, run, agent, session))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def decisions_about(connection: sqlite3.Connection, agent: str, session: str) -> list[RecordedDecision]:
    """The decisions about a session, in order."""
    return _read(connection, "agent = ? AND session = ?", agent, session).get((agent, session), [])


# --- for all other code ----------------------------------------------------------------------------------------------


def recorded_decisions(agent: str, session: str) -> list[RecordedDecision]:
    """The decisions about a session that were made on this computer, in order.

    The list is empty if they cannot be read: then only the session's own files are evidence.
    """
    return decisions_if_readable(agent, session) or []


def decisions_if_readable(agent: str, session: str) -> list[RecordedDecision] | None:
    """The same decisions; None if they cannot be read."""
    found = _load("agent = ? AND session = ?", agent, session)
    return None if found is None else found.get((agent, session), [])


def all_decisions() -> list[RecordedDecision]:
    """The decisions about all sessions that were made on this computer, in order; none if they cannot be read."""
    found = [decision for decisions in (_load("session IS NOT NULL") or {}).values() for decision in decisions]
    return sorted(found, key=lambda decision: decision.at)


def decision_mark(agent: str, session: str) -> str:
    """Short text that changes with the decisions about a session: empty if there are none, `UNKNOWN` if unreadable."""
    found = decisions_if_readable(agent, session)
    return UNKNOWN if found is None else _mark(found)


def decision_marks(agent: str) -> dict[str, str]:
    """The marks of all sessions with decisions; none if they cannot be read."""
    found = _load("agent = ? AND session IS NOT NULL", agent) or {}
    return {session: _mark(decisions) for (owner, session), decisions in found.items() if owner == agent}


def _mark(decisions: list[RecordedDecision]) -> str:
    return f"|{zlib.crc32(msgspec.json.encode(decisions)):x}" if decisions else ""


class DecisionChanges:
    """Detects new decisions, including those recorded by other processes."""

    def __init__(self) -> None:
        self._stamp: tuple[int, ...] = ()
        self._last = -1

    def are_new(self) -> bool:
        """Whether there are more decisions than at the last call that could read them."""
        path = data_folder() / FILE_NAME
        stamp = _stamp(path)
        if not stamp or (stamp == self._stamp and _is_settled(stamp)):
            return False
        try:
            with closing(open_read_only(path)) as connection:
                ((last,),) = connection.execute("SELECT coalesce(max(id), 0) FROM decision")
        except (OSError, sqlite3.Error):
            return False
        before, self._last, self._stamp = self._last, last, stamp
        return bool(last != before)


def _load(where: str, *values: str) -> _BySession | None:
    """At least the decisions that meet a condition; None if they cannot be read."""
    path = data_folder() / FILE_NAME
    stamp = _stamp(path)
    if not stamp:
        return {}
    try:
        if _is_settled(stamp):
            return _all(path, stamp)
        with closing(open_read_only(path)) as connection:
            return _read(connection, where, *values)
    except (OSError, sqlite3.Error, msgspec.DecodeError):
        return None


def _is_settled(stamp: tuple[int, ...]) -> bool:
    return time.time() - max(stamp[::2]) / 1e9 > _SETTLED_SECONDS


def _stamp(path: Path) -> tuple[int, ...]:
    """Times and sizes that change when the database is written to; empty if there is no database."""
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
    with closing(open_read_only(path)) as connection:
        return _read(connection, "session IS NOT NULL")


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open the database of the run log read-only, even in a folder that is not writable."""
    from .backends.sqlite import connect_read_only

    return connect_read_only(path)


def version_of(connection: sqlite3.Connection) -> int:
    """The version of the run log."""
    ((version,),) = connection.execute("PRAGMA user_version")
    return int(version)


def _read(connection: sqlite3.Connection, where: str, *values: str) -> _BySession:
    found: _BySession = {}
    sql = _SELECT if version_of(connection) >= CHAIN_VERSION else _SELECT_BEFORE_CHAIN
    for agent, session, data, turn in connection.execute(f"{sql} AND {where} ORDER BY id", values):
        decision = _DECISION.decode(data)
        decision.session = session
        decision.turn = turn or decision.turn
        found.setdefault((agent, session), []).append(decision)
    return found


_SELECT = """SELECT agent, session, data,
    (SELECT json_extract(later.data, '$.turn') FROM decision later
     WHERE later.subject = decision.id AND later.kind = 'turn' ORDER BY later.id DESC LIMIT 1)
    FROM decision WHERE kind = 'decision'"""
_SELECT_BEFORE_CHAIN = "SELECT agent, session, data, NULL FROM decision WHERE TRUE"
"""For logs without a chain: a server of an earlier version may still be running."""
