"""The table of turns: complete, and its promises hold for any order of inputs."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.runs.drivers.turn_state import TRANSITIONS, Input, Lifecycle, Phase, TurnAction, TurnState

PHASES: tuple[Phase, ...] = get_args(Phase)
INPUTS: tuple[Input, ...] = get_args(Input)


def test_the_table_is_complete() -> None:
    """Every input has a meaning in every phase."""
    assert set(TRANSITIONS) == set(product(PHASES, INPUTS))


def test_a_turn_from_start_to_end() -> None:
    """A message, its turn, and another message that was sent during it."""
    turn = TurnState()
    assert turn.apply("sent") == ()
    assert turn.apply("started") == (TurnAction.REPORT_START,)
    assert (turn.is_active, turn.is_idle) == (True, False)
    assert turn.apply("sent") == ()
    assert turn.apply("ended_with_more") == (TurnAction.REPORT_END,)
    assert (turn.is_active, turn.is_idle) == (False, False)
    turn.apply("started")
    assert turn.apply("ended") == (TurnAction.REPORT_END,)
    assert turn.is_idle
    assert turn.ended == 2


def test_interrupting() -> None:
    """The first interrupt of a turn is watched, further ones are only sent, and an idle agent gets none."""
    turn = TurnState()
    assert turn.apply("interrupt") == ()
    turn.apply("sent")
    assert turn.apply("interrupt") == (TurnAction.INTERRUPT,)
    turn.apply("started")
    assert turn.apply("interrupt") == (TurnAction.INTERRUPT, TurnAction.EXPECT_END)
    assert turn.apply("interrupt") == (TurnAction.INTERRUPT,)
    assert turn.is_interrupting
    turn.apply("ended")
    assert not turn.is_interrupting


def test_a_message_that_could_not_be_sent_starts_no_turn() -> None:
    """A turn that is running is not affected by it."""
    turn = TurnState()
    turn.apply("sent")
    turn.apply("send_failed")
    assert turn.is_idle
    turn.apply("started")
    turn.apply("send_failed")
    assert turn.is_active


@pytest.mark.parametrize("phase", PHASES)
def test_an_agent_that_exits_has_no_turn(phase: Phase) -> None:
    """Its end is reported by the driver, not by the turn."""
    turn = TurnState(phase)
    assert turn.apply("exited") == ()
    assert turn.is_idle


@given(st.lists(st.sampled_from(INPUTS), max_size=40))
def test_reports_match_the_phase_for_any_inputs(inputs: list[Input]) -> None:
    """A start is reported once per turn, an end only for an end, and an idle agent is never interrupted."""
    turn = TurnState()
    ended = 0
    for input in inputs:
        before = turn.phase
        actions = turn.apply(input)
        assert (TurnAction.REPORT_START in actions) == (input == "started" and before in ("idle", "starting"))
        assert (TurnAction.REPORT_END in actions) == input.startswith("ended")
        assert (TurnAction.INTERRUPT in actions) == (input == "interrupt" and before != "idle")
        assert (TurnAction.EXPECT_END in actions) == (input == "interrupt" and before == "running")
        ended += input.startswith("ended")
        assert turn.ended == ended


def test_the_lifecycle_of_an_agent() -> None:
    """It runs from its start until it is stopped, and exits once."""
    life = Lifecycle()
    seen = [life.is_running]
    life.has_started = True
    seen.append(life.is_running)
    life.is_stopping = True
    seen.append(life.is_running)
    assert seen == [False, True, False]
    assert life.exit()
    assert not life.exit()
