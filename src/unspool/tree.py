"""The conversation as a tree of numbers: paths, branches, what belongs together.

It knows messages only by their index and a few flags, never their text, so that a session of a million messages
is a few arrays. Nothing recurses and every pass is linear.

A message with two children is not yet a fork: parallel tool calls, the pieces of one model response, progress and
hook lines hang beside the chain too. Only a child under which the conversation went on (a prompt, or another model
response) makes a branch; everything else is a side note of the line it hangs on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

PROMPT = 1
"""Typed by a person."""
MODEL = 2
"""Said by the model."""
CONTINUED = 4
"""A further piece of a response that began in an earlier message."""
UNANSWERED = 8
"""Holds a tool call without a result."""
STITCHED = 16
"""Its recorded parent is missing."""
INHERITED = 32
"""Belongs to the session this one was forked from."""
USAGE_MOVED = 64
"""A later piece of the same response carries the usage."""
QUEUED = 128
"""A prompt typed while a turn ran, which the turn took up: no turn of its own."""
STANDIN = 256
"""Said by the harness in the model's place, such as an error."""
COMMAND = 512
"""A command for the agent, not for the model."""

NONE = -1


class Line(NamedTuple):
    """A line of the conversation that is not the active path."""

    root: int
    tip: int
    length: int


class Tree:
    """Parents and flags of all messages, and what follows from them."""

    def __init__(self, parents: array[int], flags: array[int]) -> None:
        self.parents = parents
        self.flags = flags
        self._order: Sequence[int] = _order(parents)
        self._heavy, self._newest = self._weigh()
        self._sides: dict[int, list[int]] | None = None

    def __len__(self) -> int:
        return len(self.parents)

    def _weigh(self) -> tuple[bytearray, array[int]]:
        """Which subtrees carry conversation, and their newest message that does."""
        parents, flags = self.parents, self.flags
        heavy = bytearray(len(parents))
        newest = array("i", [NONE]) * len(parents)
        later_turn = False
        for index in reversed(self._order):
            flag = flags[index]
            if flag & (PROMPT | MODEL) and not flag & QUEUED:
                # A further piece of a response counts only when its call was left behind: the agent was killed at
                # it, and a later turn went on from the piece before.
                if not flag & CONTINUED:
                    heavy[index] = later_turn = True
                elif flag & UNANSWERED and later_turn:
                    heavy[index] = True
            if heavy[index]:
                newest[index] = max(newest[index], index)
                parent = parents[index]
                if parent >= 0:
                    heavy[parent] = True
                    newest[parent] = max(newest[parent], newest[index])
        return heavy, newest

    def path(self, tip: int) -> list[int]:
        """The chain of parents from a message up to its beginning, the message first."""
        parents = self.parents
        chain = []
        while tip >= 0:
            chain.append(tip)
            tip = parents[tip]
        return chain

    def sides(self, index: int) -> list[int]:
        """Messages that hang on this one without going on from it, and what hangs on them in turn."""
        if self._sides is None:
            self._sides = {}
            for child in self._order:
                parent = self.parents[child]
                if parent >= 0 and not self._heavy[child]:
                    self._sides.setdefault(parent, []).append(child)
        found = list(self._sides.get(index, ()))
        for child in found:
            found.extend(self._sides.get(child, ()))
        return found

    def leaves(self) -> list[int]:
        """Messages that no other message hangs on."""
        has_child = bytearray(len(self.parents))
        for parent in self.parents:
            if parent >= 0:
                has_child[parent] = 1
        return [index for index, child in enumerate(has_child) if not child]

    def depths(self) -> array[int]:
        """Length of the chain above each message."""
        depths = array("i", [0]) * len(self.parents)
        for index in self._order:
            parent = self.parents[index]
            depths[index] = depths[parent] + 1 if parent >= 0 else 1
        return depths

    def lay_out(self, tip: int) -> tuple[array[int], list[Line]]:
        """Say for each message on which line it is: 0 for the active path, else the place in the list, from 1."""
        parents, heavy = self.parents, self._heavy
        on_path = bytearray(len(parents))
        for index in self.path(tip):
            on_path[index] = 1
        follower = self._followers(on_path)
        branch = array("i", [0]) * len(parents)
        lines: list[Line] = []
        for index in self._order:
            parent = parents[index]
            if on_path[index] or (parent < 0 and not heavy[index]):
                continue
            if parent >= 0 and parent != tip and (follower[parent] == index or not heavy[index]):
                branch[index] = number = branch[parent]
            elif not heavy[index]:
                continue
            else:
                lines.append(Line(index, index, 0))
                branch[index] = number = len(lines)
            if number:
                root, newest, length = lines[number - 1]
                lines[number - 1] = Line(root, index if heavy[index] else newest, length + 1)
        return branch, lines

    def _followers(self, on_path: bytearray) -> array[int]:
        """For each message the child with which its line goes on."""
        parents, heavy, newest = self.parents, self._heavy, self._newest
        follower = array("i", [NONE]) * len(parents)
        for index in self._order:
            parent = parents[index]
            if parent < 0 or not (on_path[index] or heavy[index]):
                continue
            rival = follower[parent]
            if on_path[index] or rival < 0 or (not on_path[rival] and newest[index] > newest[rival]):
                follower[parent] = index
        return follower


def _order(parents: array[int]) -> Sequence[int]:
    """All messages, parents before children. In a sound log that is the order of the file."""
    if all(parent < index for index, parent in enumerate(parents)):
        return range(len(parents))
    children: dict[int, list[int]] = {}
    for index, parent in enumerate(parents):
        children.setdefault(parent, []).append(index)
    order = children.get(NONE, [])
    for index in order:
        order.extend(children.get(index, ()))
    return order


def find_cycles(parents: array[int], suspects: Iterable[int]) -> list[int]:
    """One message of each ring of parents: the first in the file. Only rings through a suspect are looked for."""
    state = bytearray(len(parents))
    entries = []
    for start in suspects:
        chain = []
        index = start
        while index >= 0 and not state[index]:
            state[index] = 1
            chain.append(index)
            index = parents[index]
        if index >= 0 and state[index] == 1:
            entries.append(min(chain[chain.index(index) :]))
        for index in chain:
            state[index] = 2
    return entries
