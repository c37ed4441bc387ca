"""The states of a run: the promises about timeouts and answers hold for any order of events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.runs.state import DenyRequest, Limits, RunState, StopRun

LIMITS = Limits(idle=300, waiting=1800)
REQUESTS = ("a", "b", "c")
EVENTS = (
    "started", "message_sent", "turn_started", "turn_ended", "interrupted", "requested", "answered", "cancelled",
    "tick", "exited",
)  # fmt: skip
STEPS = st.lists(
    st.tuples(
        st.sampled_from(EVENTS),
        st.sampled_from(REQUESTS),
        st.floats(0, 1000),
    ),
    max_size=60,
)


def _state(machine: RunState) -> str:
    """The current state; a type checker would believe that it never changes."""
    return machine.state


def _in_turn(now: float = 0.0) -> RunState:
    machine = RunState(LIMITS, now)
    machine.started(now)
    machine.message_sent(now)
    machine.turn_started(now)
    return machine


def test_a_run_from_start_to_end() -> None:
    machine = RunState(LIMITS, 0)
    assert _state(machine) == "starting"
    machine.started(1)
    assert _state(machine) == "idle"
    machine.message_sent(2)
    assert _state(machine) == "in-turn"
    machine.requested("a", 3)
    assert _state(machine) == "waiting-input"
    assert machine.answered("a", 4)
    assert _state(machine) == "in-turn"
    machine.turn_ended(5)
    assert _state(machine) == "idle"
    assert machine.next_deadline() == 305
    assert machine.tick(304.9) == []
    assert machine.tick(305) == [StopRun("idle")]
    assert machine.tick(306) == []
    machine.exited("done", 307)
    assert (machine.state, machine.reason) == ("ended", "idle")


def test_a_message_cancels_the_idle_timeout() -> None:
    machine = _in_turn()
    machine.turn_ended(10)
    machine.message_sent(300)
    assert machine.next_deadline() is None
    assert machine.tick(10_000) == []
    machine.turn_ended(20_000)
    assert machine.next_deadline() == 20_300


def test_no_timeout_during_a_turn() -> None:
    machine = _in_turn()
    assert machine.next_deadline() is None
    assert machine.tick(1e9) == []


def test_an_unanswered_request_is_denied_once_and_then_the_idle_timeout_runs() -> None:
    machine = _in_turn()
    machine.requested("a", 100)
    assert machine.next_deadline() == 1900
    assert machine.tick(1900) == [DenyRequest("a")]
    assert machine.tick(1901) == []
    machine.answered("a", 1901)
    machine.turn_ended(1902)
    assert machine.next_deadline() == 2202


def test_the_first_answer_counts() -> None:
    machine = _in_turn()
    machine.requested("a", 1)
    assert machine.answered("a", 2)
    assert not machine.answered("a", 2)
    assert not machine.answered("never asked", 2)


def test_an_interrupted_turn() -> None:
    machine = _in_turn()
    machine.requested("a", 1)
    machine.turn_ended(2, interrupted=True)
    assert _state(machine) == "interrupted"
    assert not machine.answered("a", 3)
    assert machine.next_deadline() == 302
    machine.message_sent(4)
    assert _state(machine) == "in-turn"


@pytest.mark.parametrize("limits", [Limits(idle=0, waiting=0)])
def test_zero_disables_a_timeout(limits: Limits) -> None:
    machine = RunState(limits, 0)
    machine.started(0)
    assert machine.next_deadline() is None
    assert machine.tick(1e12) == []
    machine.requested("a", 0)
    assert machine.next_deadline() is None
    assert machine.tick(1e12) == []


def _step(machine: RunState, what: str, request: str, now: float) -> list[object]:
    match what:
        case "turn_ended":
            machine.turn_ended(now)
        case "interrupted":
            machine.turn_ended(now, interrupted=True)
        case "requested":
            machine.requested(request, now)
        case "answered" | "cancelled":
            getattr(machine, what)(request, now)
        case "tick":
            return list(machine.tick(now))
        case "exited":
            machine.exited("gone", now)
        case _:
            getattr(machine, what)(now)
    return []


@given(STEPS)
@settings(max_examples=400, deadline=None)
def test_promises_hold_for_any_order_of_events(steps: list[tuple[str, str, float]]) -> None:
    machine, now = RunState(LIMITS, 0.0), 0.0
    refused: dict[str, int] = {}
    requested_at: dict[str, float] = {}
    turns = 0
    for what, request, pause in steps:
        now += pause
        before, open_before, since = machine.state, set(machine.open), machine.since
        actions = _step(machine, what, request, now)
        if what == "requested" and request in machine.open and request not in open_before:
            refused.pop(request, None)
            requested_at[request] = now
        turns += what in ("turn_started", "message_sent")
        # What has ended stays so, and nothing more is to be done for it.
        if before == "ended":
            assert _state(machine) == "ended"
            assert actions == []
            assert machine.next_deadline() is None
        for action in actions:
            if isinstance(action, StopRun):
                # Never in the middle of a turn, never while a request is open, never too early.
                assert before in ("idle", "interrupted")
                assert not open_before
                assert now >= since + LIMITS.idle
            else:
                assert isinstance(action, DenyRequest)
                assert action.request in open_before
                assert now >= requested_at[action.request] + LIMITS.waiting
                assert action.request not in refused
                refused[action.request] = 1
        assert (machine.state == "waiting-input") == bool(machine.open) or machine.state == "starting"
        if machine.state == "in-turn":
            assert machine.next_deadline() is None


def test_an_agent_that_is_not_logged_in_is_not_idle() -> None:
    """It rests like an idle one: a message starts a turn, and the idle timeout stops it."""
    machine = RunState(Limits(idle=10, waiting=0), 0)
    machine.started(0)
    machine.turn_started(1)
    machine.turn_ended(2, needs_login=True)
    states = [machine.state]
    assert machine.next_deadline() == 12
    machine.message_sent(3)
    assert [*states, machine.state] == ["needs-login", "in-turn"]
