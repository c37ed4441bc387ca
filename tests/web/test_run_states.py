"""The state of a run outranks what the files of its session suggest, wherever the session is shown."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from unspool.core import model as m
from unspool.runs.session_runs import SessionRun, SessionRuns
from unspool.runs.state import State
from unspool.store import Store
from unspool.store.rows import SessionRow
from unspool.web.run_states import known_runs, open_calls, run_on, shown_counts
from unspool.web.session_list import is_live, list_sessions
from unspool.web.session_query import SessionQuery
from unspool.web.views import ListParams

NOW = 1_800_000_000.0
WRITTEN = datetime.fromtimestamp(NOW - 5, UTC)


@pytest.fixture
def row(store: Store) -> SessionRow:
    """A session with an unfinished call, written a moment ago."""
    found = next(row for row in store.sessions.select() if row.kind == "main" and row.counts.get("orphan"))
    return msgspec.structs.replace(found, ended_at=WRITTEN, status="killed")


def runs_of(row: SessionRow, state: State, ended_at: float | None = None, *calls: str) -> SessionRuns:
    run = SessionRun(run="r", state=state, ended_at=ended_at, waiting_calls=frozenset(calls))
    return {(row.agent, row.name): run}


@pytest.mark.parametrize("state", ["starting", "in-turn", "waiting-input", "idle", "interrupted"])
def test_a_session_with_an_agent_is_live_however_old_its_file_is(row: SessionRow, state: State) -> None:
    with known_runs(runs_of(row, state)):
        assert is_live(row, NOW + 1e6)


def test_a_session_is_not_live_after_its_agent_was_stopped(row: SessionRow) -> None:
    """However fresh its file is, and whatever its last status was."""
    for status in ("killed", "running", "waiting"):
        old = msgspec.structs.replace(row, status=status)
        assert is_live(old, NOW)
        with known_runs(runs_of(row, "ended", NOW - 4)):
            assert not is_live(old, NOW)


def test_another_program_that_writes_later_makes_it_live_again(row: SessionRow) -> None:
    with known_runs(runs_of(row, "ended", NOW - 60)):
        assert run_on(row) is None
        assert is_live(row, NOW)


def test_a_subagent_has_the_state_of_its_parent(row: SessionRow) -> None:
    below = msgspec.structs.replace(row, kind="subagent", name="below", parent=row.name)
    with known_runs(runs_of(row, "ended", NOW)):
        assert not is_live(below, NOW)


def test_a_call_that_waits_for_a_decision_is_not_an_unfinished_one(store: Store, row: SessionRow) -> None:
    """In the record that pages show; calls of earlier turns stay as they are."""
    (*_, orphan) = SessionQuery(store, row).head.orphans
    with known_runs(runs_of(row, "waiting-input", None, orphan.tool_use_id)):
        query = SessionQuery(store, row)
        assert [one.reason for one in query.head.orphans if one.tool_use_id == orphan.tool_use_id] == ["waiting"]
        assert "orphan" not in shown_counts(row)
    with known_runs(runs_of(row, "idle")):
        assert SessionQuery(store, row).head.orphans[-1].reason == orphan.reason
        assert shown_counts(row) == row.counts


def test_calls_before_the_turn_stay_unfinished() -> None:
    calls = [
        m.Orphan(message_index=index, tool_use_id=f"c{index}", tool_name="Bash", reason="killed") for index in range(4)
    ]
    reasons = [one.reason for one in open_calls(calls, frozenset({"c3"}), turn=2)]
    assert reasons == ["killed", "killed", "running", "waiting"]
    assert [one.is_open for one in open_calls(calls, frozenset(), turn=4)] == [False] * 4


def test_the_list_starts_with_the_sessions_that_need_somebody(store: Store) -> None:
    last = list_sessions(store, ListParams(limit=1000)).sessions[-1].row
    with known_runs(runs_of(last, "waiting-input")):
        first = list_sessions(store, ListParams(limit=1000)).sessions[0]
        assert (first.row.id, first.run_state, first.live) == (last.id, "waiting-input", True)
