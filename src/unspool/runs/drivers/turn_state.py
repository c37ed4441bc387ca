"""The state machine for the turns of one agent, shared by all drivers. It has no clock and no process.

A driver passes what it sends and what its agent reports as inputs, and carries out the actions it gets back. How an
interrupt is sent, and how a message starts a turn, is up to the driver.
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
    """An action that a driver has to take after an input."""

    REPORT_START = "report start"
    REPORT_END = "report end"
    INTERRUPT = "interrupt"
    """Tell the agent to stop its turn."""
    EXPECT_END = "expect end"
    """The first interrupt of this turn: check after a while whether the turn has ended."""


_START = (TurnAction.REPORT_START,)
_END = (TurnAction.REPORT_END,)
_INTERRUPT = (TurnAction.INTERRUPT,)
_FIRST_INTERRUPT = (TurnAction.INTERRUPT, TurnAction.EXPECT_END)

TRANSITIONS: dict[tuple[Phase, Input], tuple[Phase, tuple[TurnAction, ...]]] = {
    ("idle", "sent"): ("starting", ()),
    ("idle", "send_failed"): ("idle", ()),
    ("idle", "started"): ("running", _START),
    ("idle", "interrupt"): ("idle", ()),
    # Some agents respond to built-in commands without reporting that a turn has started.
    ("idle", "ended"): ("idle", _END),
    ("idle", "ended_with_more"): ("starting", _END),
    ("idle", "exited"): ("idle", ()),
    ("starting", "sent"): ("starting", ()),
    ("starting", "send_failed"): ("idle", ()),
    ("starting", "started"): ("running", _START),
    # An interrupt may have no effect before the turn starts; the driver interrupts again once it is running.
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
    """The state of the current turn of one agent."""

    phase: Phase = "idle"
    ended: int = 0
    """The number of turns that have ended."""

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
        """Apply an input; return the actions that the driver has to take, in this order."""
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
        """Record that the agent has exited; return True the first time."""
        is_first = not self.has_exited
        self.has_exited = True
        return is_first
