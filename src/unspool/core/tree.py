"""The conversation as a tree of numbers: paths, branches, what belongs together.

It knows messages only by their index and a few flags, never their text, so that a session of a million messages
is a few arrays. Nothing recurses, every pass is linear, and what lies on the active path costs next to nothing.

A message with two children is not yet a fork: parallel tool calls, the pieces of one model response, progress and
hook lines hang beside the chain too. Only a child under which the conversation went on (a prompt, or another model
response) makes a branch; everything else is a side note of the line it hangs on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import cached_property
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
    """Parents and flags of all messages, the end of the active path, and what follows from them."""

    def __init__(self, parents: array[int], flags: array[int], tip: int) -> None:
        self.parents = parents
        self.flags = flags
        self.tip = tip

    def __len__(self) -> int:
        return len(self.parents)

    def path(self, tip: int) -> list[int]:
        """The chain of parents from a message up to its beginning, the message first."""
        parents = self.parents
        if tip == len(parents) - 1 and parents == array("i", range(-1, tip)):
            return list(range(tip, -1, -1))
        chain = []
        while tip >= 0:
            chain.append(tip)
            tip = parents[tip]
        return chain

    @cached_property
    def _beside(self) -> list[int]:
        """Messages that are not on the active path, parents before children."""
        path = self.path(self.tip)
        if len(path) == len(self.parents):
            return []
        on_path = bytearray(len(self.parents))
        for index in path:
            on_path[index] = 1
        found = []
        index = on_path.find(0)
        while index >= 0:
            found.append(index)
            index = on_path.find(0, index + 1)
        return found if all(self.parents[index] < index for index in found) else self._sorted(found)

    def _sorted(self, messages: list[int]) -> list[int]:
        """A damaged log may name parents that come later in the file."""
        inside = set(messages)
        children: dict[int, list[int]] = {}
        order = []
        for index in messages:
            parent = self.parents[index]
            if parent in inside:
                children.setdefault(parent, []).append(index)
            else:
                order.append(index)
        for index in order:
            order.extend(children.get(index, ()))
        return order

    @cached_property
    def _heavy(self) -> dict[int, int]:
        """Messages beside the active path under which conversation went on, each with the newest such message."""
        newest: dict[int, int] = {}
        if not self._beside:
            return newest
        parents, flags = self.parents, self.flags
        last_turn = self._last_turn()
        beside = set(self._beside)
        for index in reversed(self._beside):
            flag = flags[index]
            # A further piece of a response counts only when its call was left behind: the agent was killed at it,
            # and a later turn went on from the piece before.
            begins = not flag & CONTINUED or (flag & UNANSWERED and index < last_turn)
            if begins and flag & (PROMPT | MODEL) and not flag & QUEUED:
                newest[index] = max(index, newest.get(index, index))
            if index in newest and parents[index] in beside:
                parent = parents[index]
                newest[parent] = max(newest[index], newest.get(parent, NONE))
        return newest

    def _last_turn(self) -> int:
        for index in range(len(self.flags) - 1, -1, -1):
            flag = self.flags[index]
            if flag & (PROMPT | MODEL) and not flag & (CONTINUED | QUEUED):
                return index
        return NONE

    @property
    def has_sides(self) -> bool:
        """Whether any message hangs on another without going on from it."""
        return bool(self._light)

    def sides(self, index: int) -> list[int]:
        """Messages that hang on this one without going on from it, and what hangs on them in turn."""
        if not self._light:
            return []
        found = list(self._light.get(index, ()))
        for child in found:
            found.extend(self._light.get(child, ()))
        return found

    @cached_property
    def _light(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for child in self._beside:
            if child not in self._heavy and self.parents[child] >= 0:
                found.setdefault(self.parents[child], []).append(child)
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
        for start in range(len(depths)):
            chain = []
            index = start
            while index >= 0 and not depths[index]:
                chain.append(index)
                index = self.parents[index]
            depth = depths[index] if index >= 0 else 0
            for index in reversed(chain):
                depth += 1
                depths[index] = depth
        return depths

    def lay_out(self) -> tuple[dict[int, int], list[Line]]:
        """Say which messages are on which line that was left; lines count from 1, all others are on the active path."""
        parents, heavy = self.parents, self._heavy
        follower = self._followers()
        branch: dict[int, int] = {}
        lines: list[Line] = []
        for index in self._beside:
            parent = parents[index]
            number = branch.get(parent, 0)
            if index in heavy and (not number or follower[parent] != index):
                lines.append(Line(index, index, 0))
                number = len(lines)
            if number:
                branch[index] = number
                root, tip, length = lines[number - 1]
                lines[number - 1] = Line(root, index if index in heavy else tip, length + 1)
        return branch, lines

    def _followers(self) -> dict[int, int]:
        """For each message beside the path the child with which its line goes on: that of the newest message."""
        heavy = self._heavy
        follower: dict[int, int] = {}
        for index in self._beside:
            parent = self.parents[index]
            if index in heavy and (parent not in follower or heavy[index] > heavy[follower[parent]]):
                follower[parent] = index
        return follower


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
