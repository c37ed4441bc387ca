"""The states of one running agent, as a table without clocks and processes: events go in, what is to be done comes out.

The idle clock runs only after a turn is done, and never in the middle of one. While the agent waits for a person
another clock runs; when it is over, a refusal that says so is given in that person's place.
"""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["starting", "in-turn", "waiting-input", "idle", "interrupted", "ended"]
IDLE_SECONDS = 300.0
WAITING_SECONDS = 1800.0


class Limits(msgspec.Struct, kw_only=True, frozen=True):
    """How long an agent may do nothing; 0 is for ever."""

    idle: float = IDLE_SECONDS
    waiting: float = WAITING_SECONDS


class Refuse(msgspec.Struct, frozen=True):
    """Nobody has answered: refuse in their place."""

    request: str


class End(msgspec.Struct, frozen=True):
    """End the program."""

    reason: str


ToDo = Refuse | End


class RunState:
    """Where an agent is. Every method takes the time; none of them waits."""

    def __init__(self, limits: Limits, now: float) -> None:
        self.limits = limits
        self.state: State = "starting"
        self.reason: str | None = None
        """Why it has ended."""
        self.since = now
        self.open: dict[str, float] = {}
        """What the agent asked and nobody has answered, each with the time it was asked."""
        self._in_turn = False
        self._ending = False
        self._refused: set[str] = set()

    @property
    def has_ended(self) -> bool:
        """Nothing can happen any more."""
        return self.state == "ended"

    # --- what happens ---

    def began(self, now: float) -> None:
        """The program is ready for messages."""
        if self.state == "starting":
            self._go("idle", now)

    def sent(self, now: float) -> None:
        """A message was given to it: whatever clock ran, it does not run any more."""
        if self.state in ("idle", "interrupted"):
            self._in_turn = True
            self._settle(now)

    def turn_began(self, now: float) -> None:
        """The model is at work."""
        if not self.has_ended:
            self._in_turn = True
            self._settle(now)

    def turn_ended(self, now: float, *, interrupted: bool = False) -> None:
        """The model is done. What was still asked is asked no more."""
        if self.has_ended:
            return
        self._in_turn = False
        self.open.clear()
        self._go("interrupted" if interrupted else "idle", now)

    def asked(self, request: str, now: float) -> None:
        """It waits for a person."""
        if not self.has_ended and request not in self.open:
            self.open[request] = now
            self._settle(now)

    def answered(self, request: str, now: float) -> bool:
        """Somebody has answered; False when it was answered already, or is not asked any more. The first one counts."""
        if self.has_ended or self.open.pop(request, None) is None:
            return False
        self._refused.discard(request)
        self._settle(now)
        return True

    def withdrawn(self, request: str, now: float) -> None:
        """It does not wait for an answer any more."""
        self.answered(request, now)

    def exited(self, reason: str, now: float) -> None:
        """The program is gone."""
        if not self.has_ended:
            self.open.clear()
            self._in_turn = False
            self.reason = self.reason or reason
            self._go("ended", now)

    def ending(self, reason: str) -> None:
        """It was told to end; what it ends with is this reason."""
        self._ending = True
        self.reason = self.reason or reason

    # --- time ---

    def due(self) -> float | None:
        """When there is something to do, if nothing happens before."""
        times = [at + self.limits.waiting for id, at in self.open.items() if id not in self._refused]
        if not self.limits.waiting:
            times = []
        if self._is_resting and self.limits.idle and not self._ending:
            times.append(self.since + self.limits.idle)
        return min(times, default=None)

    def tick(self, now: float) -> list[ToDo]:
        """What is to be done by now; each thing is told once."""
        found: list[ToDo] = []
        if self.limits.waiting:
            for request, at in self.open.items():
                if request not in self._refused and now >= at + self.limits.waiting:
                    self._refused.add(request)
                    found.append(Refuse(request))
        if self._is_resting and self.limits.idle and not self._ending and now >= self.since + self.limits.idle:
            self.ending("idle")
            found.append(End("idle"))
        return found

    @property
    def _is_resting(self) -> bool:
        return self.state in ("idle", "interrupted")

    def _settle(self, now: float) -> None:
        if self.state == "starting" and not self.open and not self._in_turn:
            return
        self._go("waiting-input" if self.open else "in-turn" if self._in_turn else "idle", now)

    def _go(self, state: State, now: float) -> None:
        if state != self.state:
            self.state = state
            self.since = now
