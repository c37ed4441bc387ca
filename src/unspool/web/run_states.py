"""The states of the supervisor's runs, for use in queries of the store.

Like the snapshot of the store, the states of all runs are captured once for each query, so that the list, the header
and the transcript of one page agree. They take precedence over what the files of a session suggest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from ..core import model as m
from ..runs.session_runs import SessionRun, SessionRuns
from ..store.rows import SessionRow

_FLUSH_SECONDS = 1.0
"""The last lines of an agent may have a timestamp shortly after its exit was noticed."""
_NONE: SessionRuns = {}
_current: ContextVar[SessionRuns] = ContextVar("run states", default=_NONE)


@contextmanager
def known_runs(runs: SessionRuns) -> Iterator[None]:
    """Use these states in the block."""
    token = _current.set(runs)
    try:
        yield
    finally:
        _current.reset(token)


def current_runs() -> SessionRuns:
    """Return the states of all runs at the start of the query."""
    return _current.get()


def run_on(row: SessionRow) -> SessionRun | None:
    """Return the run on a session; for a sub-agent, the run on its parent.

    Returns None if another program has written to the session since the run ended: that program's state is not known.
    """
    runs = _current.get()
    found = runs.get((row.agent, row.name))
    if found is None and row.kind == "subagent" and row.parent is not None:
        found = runs.get((row.agent, row.parent))
    if found is None or found.ended_at is None:
        return found
    written = row.ended_at.timestamp() if row.ended_at is not None else 0.0
    return found if written <= found.ended_at + _FLUSH_SECONDS else None


def shown_counts(row: SessionRow) -> dict[str, int]:
    """Return the number of events of each kind. During a turn, a call without a result is not an unfinished call."""
    run = run_on(row)
    if run is None or not run.is_in_turn:
        return row.counts
    return {kind: count for kind, count in row.counts.items() if kind != "orphan"}


def open_calls(orphans: list[m.Orphan], waiting: frozenset[str], turn: int) -> list[m.Orphan]:
    """Mark calls without a result as running or waiting if they belong to the turn that starts at message `turn`."""
    return [
        msgspec.structs.replace(orphan, reason="waiting" if orphan.tool_use_id in waiting else "running")
        if orphan.message_index >= turn or orphan.tool_use_id in waiting
        else orphan
        for orphan in orphans
    ]
