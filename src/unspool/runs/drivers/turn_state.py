"""The turn of one agent as a table, shared by all drivers: inputs go in, actions come out. No clocks, no processes.

A driver reports what it sends and what its agent says as inputs, and carries out the actions it gets back. How an
interrupt is sent, and how a message starts a turn, is the driver's own business.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

import msgspec

Phase = Literal["idle", "starting", "running", "interrupting"]
"""`starting`: a message was sent, and its turn has not started yet."""
Input = Literal["sent", "send_failed", "started", "interrupt", "ended", "ended_with_more", "exited"]
"""`ended_with_more`: a turn has ended and another message is waiting."""


class TurnAction(Enum):
    """What a driver has to do after an input."""

    REPORT_START = "report start"
    REPORT_END = "report end"
    INTERRUPT = "interrupt"
    """Tell the agent to stop its turn."""
    EXPECT_END = "expect end"
    """The first interrupt of this turn: start watching whether the agent obeys."""


_START = (TurnAction.REPORT_START,)
_END = (TurnAction.REPORT_END,)
_INTERRUPT = (TurnAction.INTERRUPT,)
_FIRST_INTERRUPT = (TurnAction.INTERRUPT, TurnAction.EXPECT_END)

TRANSITIONS: dict[tuple[Phase, Input], tuple[Phase, tuple[TurnAction, ...]]] = {
    ("idle", "sent"): ("starting", ()),
    ("idle", "send_failed"): ("idle", ()),
    ("idle", "started"): ("running", _START),
    ("idle", "interrupt"): ("idle", ()),
    # Some agents answer a command of their own without reporting that a turn has started.
    ("idle", "ended"): ("idle", _END),
    ("idle", "ended_with_more"): ("starting", _END),
    ("idle", "exited"): ("idle", ()),
    ("starting", "sent"): ("starting", ()),
    ("starting", "send_failed"): ("idle", ()),
    ("starting", "started"): ("running", _START),
    # It may have no effect before the turn starts; the driver interrupts again once it runs.
    ("starting", "interrupt"): ("starting", _INTERRUPT),
    ("starting", "ended"): ("idle", _END),
    ("starting", "ended_with_more"): ("starting", _END),
    ("starting", "exited"): ("idle", ()),
    ("running", "sent"): ("running", ()),
    ("running", "send_failed"): ("running", ()),
    ("running", "started"): ("running", ()),
    ("running", "interrupt"): ("interrupting", _FIRST_INTERRUPT),
    ("running", "ended"): ("idle", _END),
    ("running", "ended_with_more"): ("starting", _END),
    ("running", "exited"): ("idle", ()),
    ("interrupting", "sent"): ("interrupting", ()),
    ("interrupting", "send_failed"): ("interrupting", ()),
    ("interrupting", "started"): ("interrupting", ()),
    ("interrupting", "interrupt"): ("interrupting", _INTERRUPT),
    ("interrupting", "ended"): ("idle", _END),
    ("interrupting", "ended_with_more"): ("starting", _END),
    ("interrupting", "exited"): ("idle", ()),
}


class TurnState(msgspec.Struct):
    """Where the turn of one agent is."""

    phase: Phase = "idle"
    ended: int = 0
    """How many turns have ended."""

    @property
    def is_active(self) -> bool:
        """Whether a turn is running, interrupted or not."""
        return self.phase in ("running", "interrupting")

    @property
    def is_idle(self) -> bool:
        """Whether no turn is running or about to start."""
        return self.phase == "idle"

    @property
    def is_interrupting(self) -> bool:
        """Whether the agent was asked to stop the turn that is running."""
        return self.phase == "interrupting"

    def apply(self, input: Input) -> tuple[TurnAction, ...]:
        """Apply an input; returns what the driver has to do, in this order."""
        self.phase, actions = TRANSITIONS[self.phase, input]
        if TurnAction.REPORT_END in actions:
            self.ended += 1
        return actions


class Lifecycle(msgspec.Struct):
    """Whether an agent has been started, is being stopped, or has exited."""

    has_started: bool = False
    is_stopping: bool = False
    has_exited: bool = False

    @property
    def is_running(self) -> bool:
        """Whether the agent is running and nobody is stopping it."""
        return self.has_started and not self.is_stopping and not self.has_exited

    def exit(self) -> bool:
        """The agent has exited; True the first time."""
        is_first = not self.has_exited
        self.has_exited = True
        return is_first
