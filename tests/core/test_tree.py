"""The conversation as numbers: paths, lines that were left, what hangs beside."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from unspool.core.tree import CONTINUED, MODEL, NONE, PROMPT, Tree, find_cycles


def tree(parents: list[int], flags: list[int], tip: int) -> Tree:
    return Tree(array("i", parents), array("H", flags), tip)


@st.composite
def forests(draw: st.DrawFn) -> Tree:
    """Any forest in file order."""
    size = draw(st.integers(1, 40))
    parents = [draw(st.integers(NONE, index - 1)) for index in range(size)]
    flags = [draw(st.sampled_from([0, PROMPT, MODEL, MODEL | CONTINUED])) for _ in range(size)]
    return tree(parents, flags, draw(st.integers(0, size - 1)))


@given(forests())
def test_every_message_is_on_one_branch(found: Tree) -> None:
    """The active path and the lines that were left cover everything; lengths and tips fit."""
    branch, lines = found.find_branches()
    on_path = set(found.path(found.tip))
    assert on_path.isdisjoint(branch)
    for number, line in enumerate(lines, 1):
        members = [index for index, place in branch.items() if place == number]
        assert line.length == len(members)
        assert line.root in members
        assert line.tip in members


@given(forests())
def test_branches_are_connected(found: Tree) -> None:
    """The parent of a message on a line is on the same line, or the line begins there."""
    branch, lines = found.find_branches()
    for index, number in branch.items():
        parent = found.parents[index]
        assert index == lines[number - 1].root or branch.get(parent) == number


@given(forests())
def test_depths_are_lengths_of_paths(found: Tree) -> None:
    """Computed at once, they are what each path says."""
    assert list(found.depths()) == [len(found.path(index)) for index in range(len(found))]


@given(forests())
def test_leaves_have_no_children(found: Tree) -> None:
    """All others have one."""
    assert found.leaves() == [index for index in range(len(found)) if index not in set(found.parents)]


def test_parts_of_a_reply_are_not_a_branch() -> None:
    """Two parts with the same parent, one of them with children."""
    found = tree([NONE, 0, 0, 2], [PROMPT, MODEL, MODEL | CONTINUED, PROMPT], 3)
    branch, lines = found.find_branches()
    assert lines == [(1, 1, 1)]
    assert branch == {1: 1}
    found = tree([NONE, 0, 0, 1], [PROMPT, MODEL, MODEL | CONTINUED, PROMPT], 3)
    assert found.find_branches() == ({}, [])
    assert found.sides(0) == [2]


def test_cycles_are_reported_once() -> None:
    """One entry a ring: the first in the file."""
    assert find_cycles(array("i", [1, 2, 0, 2]), [0, 1, 2, 3]) == [0]
    assert find_cycles(array("i", [0]), [0]) == [0]
    assert find_cycles(array("i", [NONE, 0, 1]), [2, 1, 0]) == []


def test_parents_that_come_later_in_the_file() -> None:
    """A damaged log may name them; every message is still laid out."""
    found = tree([2, NONE, 1, 1], [PROMPT, PROMPT, MODEL, PROMPT], 3)
    branch, lines = found.find_branches()
    assert set(branch) == {0, 2}
    assert sum(line.length for line in lines) == 2
