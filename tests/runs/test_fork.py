"""Where a session can be forked: what each kind of agent allows, and which message it gets."""

from __future__ import annotations

import pytest

from unspool.core.errors import UsageError
from unspool.runs.fork import Branch, nearest_named, plan_fork
from unspool.runs.protocol import ForkReach


class Path:
    """The messages 0, 1, 4, 5, 6, 7: 2 and 3 are on another branch."""

    indices: tuple[int, ...] = (0, 1, 4, 5, 6, 7)

    def __len__(self) -> int:
        return len(self.indices)

    def index_at(self, position: int) -> int:
        return self.indices[position]

    def position_of(self, index: int) -> int:
        return max((place for place, each in enumerate(self.indices) if each <= index), default=0)


class EmptyPath(Path):
    """A branch without messages."""

    indices = ()


def branch(*, is_active: bool = True) -> Branch:
    """Two turns: 0 to 4, and 5 to 7."""
    return Branch(Path(), [0, 5], is_active)


@pytest.mark.parametrize(
    ("reach", "at", "expected", "detail"),
    [
        ("message", 1, 1, "after message 1."),
        ("message", None, 7, "after message 7."),
        ("message", 3, 1, "after message 1."),
        ("turn", 1, 4, "after message 4, the end of that turn: Agent forks only between turns."),
        ("turn", 4, 4, "after message 4."),
        ("turn", 6, 7, "after message 7, the end of that turn: Agent forks only between turns."),
        ("turn", None, 7, "after message 7."),
        ("end", None, 7, "from the end of this one."),
        ("end", 7, 7, "from the end of this one."),
    ],
)
def test_where_a_fork_is_possible(reach: ForkReach, at: int | None, expected: int, detail: str) -> None:
    """A fork continues after the message, or after the turn that it belongs to."""
    plan = plan_fork("Agent", reach, branch(), at)
    assert (plan.is_possible, plan.at) == (True, expected)
    assert plan.explanation == f"Your message starts a new session {detail}"


@pytest.mark.parametrize(
    ("reach", "at", "is_active", "limit"),
    [
        ("none", None, True, "cannot fork a session"),
        ("end", 4, True, "can fork a session only at its end"),
        ("end", None, False, "can fork a session only at its end"),
    ],
)
def test_where_no_fork_is_possible(reach: ForkReach, at: int | None, is_active: bool, limit: str) -> None:
    """The reason names the agent."""
    plan = plan_fork("Agent", reach, branch(is_active=is_active), at)
    assert not plan.is_possible
    assert plan.explanation == f"Agent {limit}, so you cannot continue from here."


@pytest.mark.parametrize("reach", ["message", "turn", "end"])
def test_a_branch_without_messages_forks_at_its_start(reach: ForkReach) -> None:
    """There is nothing to look up, and nothing fails."""
    assert plan_fork("Agent", reach, Branch(EmptyPath(), [], True), None).at == 0


def test_the_agent_gets_the_nearest_message_it_knows() -> None:
    """Not every message has an id of the agent, and messages of other branches do not count."""
    ids = {1: "one", 2: "elsewhere", 5: "five"}
    assert nearest_named(Path(), 7, ids.get) == (5, "five")
    assert nearest_named(Path(), 4, ids.get) == (1, "one")
    with pytest.raises(UsageError, match="fork the session at its end"):
        nearest_named(Path(), 0, ids.get)
