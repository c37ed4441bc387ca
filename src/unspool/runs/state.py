"""The state machine of one run, without clocks or processes: it takes events and returns the actions that are due.

The idle timeout runs only between turns. Every request has a timeout of its own; when it expires, the request is denied
with a message that says so.
"""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["starting", "in-turn", "waiting-input", "idle", "interrupted", "needs-login", "ended"]
IN_TURN: tuple[State, ...] = ("in-turn", "waiting-input")
"""The states in which a turn is running."""
RESTING: tuple[State, ...] = ("idle", "interrupted", "needs-login")
"""The states in which the agent waits for a message."""
IDLE_SECONDS = 300.0
WAITING_SECONDS = 1800.0
_RETRY_SECONDS = 60.0
"""Longest time until a request is denied again after that has failed."""


class Limits(msgspec.Struct, kw_only=True, frozen=True):
    """Timeouts of a run, in seconds; 0 disables one."""

    idle: float = IDLE_SECONDS
    waiting: float = WAITING_SECONDS


class DenyRequest(msgspec.Struct, frozen=True):
    """Deny this request, because nobody answered in time."""

    request: str


class StopRun(msgspec.Struct, frozen=True):
    """Stop the agent."""

    reason: str


DueAction = DenyRequest | StopRun


class RunState:
    """The state of one run. Every method takes the current time; none of them waits."""

    def __init__(self, limits: Limits, now: float) -> None:
        self.limits = limits
        self.state: State = "starting"
        self.reason: str | None = None
        """Why the run ended."""
        self.since = now
        self.open: dict[str, float] = {}
        """Unanswered requests, each with the time of the request."""
        self._in_turn = False
        self.is_stopping = False
        """The agent is being stopped, so that its exit is expected."""
        self._denied: set[str] = set()

    @property
    def has_ended(self) -> bool:
        """Whether the run is over; nothing changes after that."""
        return self.state == "ended"

    # --- events ---

    def started(self, now: float) -> None:
        """Record that the agent is ready for messages."""
        if self.state == "starting":
            self._enter("idle", now)

    def message_sent(self, now: float) -> None:
        """Record that a message was sent to the agent, which cancels the idle timeout."""
        if self.state in RESTING:
            self._in_turn = True
            self._update(now)

    def turn_started(self, now: float) -> None:
        """Record that the model is working."""
        if not self.has_ended:
            self._in_turn = True
            self._update(now)

    def turn_ended(self, now: float, *, interrupted: bool = False, needs_login: bool = False) -> None:
        """Record that the turn has ended, which closes every open request."""
        if self.has_ended:
            return
        self._in_turn = False
        self.open.clear()
        self._enter("needs-login" if needs_login else "interrupted" if interrupted else "idle", now)

    def requested(self, request: str, now: float) -> None:
        """Record that the agent is waiting for an answer."""
        if not self.has_ended and request not in self.open:
            self.open[request] = now
            self._update(now)

    def answered(self, request: str, now: float) -> bool:
        """Record that a request was answered; return False if it was no longer open. The first answer counts."""
        if self.has_ended or self.open.pop(request, None) is None:
            return False
        self._denied.discard(request)
        self._update(now)
        return True

    def cancelled(self, request: str, now: float) -> None:
        """Record that the agent is no longer waiting for this answer."""
        self.answered(request, now)

    def denial_failed(self, request: str, now: float) -> None:
        """Record that a request could not be denied when its time was up, so that it is tried again."""
        if request in self.open:
            self.open[request] = now + min(_RETRY_SECONDS, self.limits.waiting) - self.limits.waiting
            self._denied.discard(request)

    def exited(self, reason: str, now: float) -> None:
        """Record that the agent's process has exited."""
        if not self.has_ended:
            self.open.clear()
            self._in_turn = False
            self.reason = self.reason or reason
            self._enter("ended", now)

    def stopping(self, reason: str) -> None:
        """Record that the agent is being stopped; the run will end with this reason."""
        self.is_stopping = True
        self.reason = self.reason or reason

    # --- time ---

    def next_deadline(self) -> float | None:
        """Return when the next action is due, if nothing happens before."""
        deadlines = []
        if self.limits.waiting:
            deadlines = [at + self.limits.waiting for id, at in self.open.items() if id not in self._denied]
        if self._has_idle_timeout:
            deadlines.append(self.since + self.limits.idle)
        return min(deadlines, default=None)

    def tick(self, now: float) -> list[DueAction]:
        """Return the actions due by now. Each is returned once."""
        due: list[DueAction] = []
        if self.limits.waiting:
            for request, at in self.open.items():
                if request not in self._denied and now >= at + self.limits.waiting:
                    self._denied.add(request)
                    due.append(DenyRequest(request))
        if self._has_idle_timeout and now >= self.since + self.limits.idle:
            self.stopping("idle")
            due.append(StopRun("idle"))
        return due

    @property
    def _has_idle_timeout(self) -> bool:
        return self.state in RESTING and bool(self.limits.idle) and not self.is_stopping

    def _update(self, now: float) -> None:
        if self.state == "starting" and not self.open and not self._in_turn:
            return
        self._enter("waiting-input" if self.open else "in-turn" if self._in_turn else "idle", now)

    def _enter(self, state: State, now: float) -> None:
        if state != self.state:
            self.state = state
            self.since = now
