"""Decides where a session can be forked, for the web app, the API and the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from ..core.errors import UsageError
from .protocol import ForkReach


class MessagePath(Protocol):
    """The messages of one branch. A position is relative to the branch; an index counts all messages of the session."""

    def __len__(self) -> int: ...

    def index_at(self, position: int) -> int:
        """Return the index of the message at a position."""
        ...

    def position_of(self, index: int) -> int:
        """Return the position of a message, or the one it would have if it is not on the branch."""
        ...


class Branch(NamedTuple):
    """A branch, as far as it matters for a fork."""

    path: MessagePath
    turn_starts: Sequence[int]
    """The indexes of the prompts on the branch."""
    is_active: bool
    """Whether it is the branch that the agent would resume."""


class ForkPlan(msgspec.Struct, kw_only=True, frozen=True):
    """The message after which a fork starts, or the reason why the session cannot be forked there."""

    at: int
    is_possible: bool
    explanation: str


def plan_fork(title: str, reach: ForkReach, branch: Branch, at: int | None) -> ForkPlan:
    """Plan a fork after message `at`, or at the end of the branch, for an agent that can fork as far as `reach`."""
    path = branch.path
    tip = path.index_at(len(path) - 1) if len(path) else 0
    chosen = tip if at is None or not len(path) else path.index_at(path.position_of(at))
    if reach == "message":
        return _possible(chosen)
    if reach == "turn":
        end = _turn_end(branch, chosen)
        return _possible(end, "" if end == chosen else f", the end of that turn: {title} forks only between turns")
    if reach == "end" and branch.is_active and chosen == tip:
        explanation = "Your message starts a new session from the end of this one."
        return ForkPlan(at=chosen, is_possible=True, explanation=explanation)
    limit = "can fork a session only at its end" if reach == "end" else "cannot fork a session"
    return ForkPlan(at=chosen, is_possible=False, explanation=f"{title} {limit}, so you cannot continue from here.")


def _possible(at: int, detail: str = "") -> ForkPlan:
    explanation = f"Your message starts a new session after message {at}{detail}."
    return ForkPlan(at=at, is_possible=True, explanation=explanation)


def _turn_end(branch: Branch, index: int) -> int:
    """Return the last message of the turn that a message belongs to."""
    path = branch.path
    later = [start for start in branch.turn_starts if start > index]
    last = path.position_of(min(later)) - 1 if later else len(path) - 1
    return path.index_at(max(last, path.position_of(index))) if len(path) else index


def nearest_named(path: MessagePath, index: int, id_of: Callable[[int], str | None]) -> tuple[int, str]:
    """Return the nearest message, at or before `index` on the branch, that the agent has an id for, and that id."""
    for position in range(path.position_of(index), -1, -1):
        found = path.index_at(position)
        if (id := id_of(found)) is not None:
            return found, id
    raise UsageError("The agent has no id for this message or any before it; fork the session at its end instead")
