"""The conversation as a tree of numbers: paths, branches, and side messages.

A message is represented by its index and a few flags, never by its text, so that a session of a million messages is a
few arrays. Nothing recurses, every pass is linear, and messages on the active path cost next to nothing.

Two children do not make a fork: parallel tool calls, further parts of a model response, progress and hook lines are
also attached next to the chain. Only a child under which the conversation continues (with a prompt or another model
response) starts a branch; everything else is a side message of the message it is attached to. A command for the agent,
such as one that ends it, continues nothing, and the model never sees it if the conversation bypasses it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

PROMPT = 1
"""Typed by a person."""
MODEL = 2
"""Written by the model."""
CONTINUED = 4
"""A further part of a response that began in an earlier message."""
UNANSWERED = 8
"""Holds a tool call without a result."""
STITCHED = 16
"""Its recorded parent is missing."""
INHERITED = 32
"""Belongs to the session this one was forked from."""
USAGE_MOVED = 64
"""A later part of the same response has the usage."""
QUEUED = 128
"""A prompt that was typed during a turn and became part of it, so it starts no turn of its own."""
STANDIN = 256
"""Written by the harness in place of the model, such as an error."""
COMMAND = 512
"""A command for the agent, not for the model."""
OUTPUT = 1024
"""The output of such a command: the agent ran it without asking the model."""

NONE = -1


class BranchShape(NamedTuple):
    """A branch off the active path."""

    root: int
    tip: int
    length: int


class Tree:
    """Parents and flags of all messages, the end of the active path, and everything derived from them."""

    def __init__(self, parents: array[int], flags: array[int], tip: int) -> None:
        self.parents = parents
        self.flags = flags
        self.tip = tip

    def __len__(self) -> int:
        return len(self.parents)

    def path(self, tip: int) -> list[int]:
        """Return the chain of parents from a message to the root, starting with the message."""
        parents = self.parents
        if tip == len(parents) - 1 and parents == array("i", range(-1, tip)):
            return list(range(tip, -1, -1))
        chain = []
        while tip >= 0:
            chain.append(tip)
            tip = parents[tip]
        return chain

    def in_order(self, messages: set[int]) -> list[int]:
        """Sort messages in the order of the conversation: by their index, but none before its parent."""
        order = sorted(messages)
        if self._early.isdisjoint(messages):
            return order
        waiting: dict[int, list[int]] = {}
        for index in order:
            if index in self._early and self.parents[index] in messages:
                waiting.setdefault(self.parents[index], []).append(index)
        stack = [index for index in reversed(order) if index not in self._early or self.parents[index] not in messages]
        found = []
        while stack:
            index = stack.pop()
            found.append(index)
            stack += reversed(waiting.get(index, ()))
        return found

    @cached_property
    def _early(self) -> frozenset[int]:
        """Messages that the log has before their parents."""
        return frozenset(index for index, parent in enumerate(self.parents) if parent > index)

    @cached_property
    def _off_path(self) -> list[int]:
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
        """Sort parents before children: a damaged log may name parents that come later in the file."""
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
        """Messages off the active path under which the conversation continues, each with the newest of these."""
        newest: dict[int, int] = {}
        if not self._off_path:
            return newest
        parents, flags = self.parents, self.flags
        last_turn = self._last_turn()
        off_path = set(self._off_path)
        for index in reversed(self._off_path):
            flag = flags[index]
            # A further part of a response counts only if its call was abandoned: the agent was killed while it ran,
            # and a later turn continued from the part before.
            begins = not flag & CONTINUED or (flag & UNANSWERED and index < last_turn)
            if begins and flag & (PROMPT | MODEL) and not flag & (QUEUED | COMMAND):
                newest[index] = max(index, newest.get(index, index))
            if index in newest and parents[index] in off_path:
                parent = parents[index]
                newest[parent] = max(newest[index], newest.get(parent, NONE))
        return newest

    def last_said(self) -> int:
        """Return the last prompt or answer of the active path, ignoring commands that the agent ran itself."""
        last, is_done = self.tip, False
        while last >= 0 and (not self.flags[last] & (PROMPT | MODEL) or (is_done and self.flags[last] & COMMAND)):
            is_done = bool(self.flags[last] & OUTPUT) or (is_done and not self.flags[last] & COMMAND)
            last = self.parents[last]
        return last

    def _last_turn(self) -> int:
        for index in range(len(self.flags) - 1, -1, -1):
            flag = self.flags[index]
            if flag & (PROMPT | MODEL) and not flag & (CONTINUED | QUEUED):
                return index
        return NONE

    @property
    def has_bypassed(self) -> bool:
        """Whether there are commands that the conversation bypassed."""
        return any(self.flags[index] & COMMAND for index in self._off_path)

    @property
    def has_sides(self) -> bool:
        """Whether there are any side messages."""
        return bool(self._light)

    def with_sides(self) -> list[int]:
        """Return the messages that have side messages, in order."""
        return sorted(self._light)

    def sides(self, index: int) -> list[int]:
        """Return the side messages of a message, and their own side messages; none that belong to a command."""
        if index not in self._light:
            return []
        found = list(self._light[index])
        for child in found:
            found.extend(self._light.get(child, ()))
        return found

    @cached_property
    def _light(self) -> dict[int, list[int]]:
        """The side messages attached directly to each message."""
        found: dict[int, list[int]] = {}
        for child in self._off_path:
            if child not in self._heavy and self.parents[child] >= 0 and not self.flags[child] & COMMAND:
                found.setdefault(self.parents[child], []).append(child)
        return found

    def leaves(self) -> list[int]:
        """Return the messages without children."""
        has_child = bytearray(len(self.parents))
        for parent in self.parents:
            if parent >= 0:
                has_child[parent] = 1
        return [index for index, child in enumerate(has_child) if not child]

    def depths(self) -> array[int]:
        """Return the length of the chain above each message."""
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

    def find_branches(self) -> tuple[dict[int, int], list[BranchShape]]:
        """Return the branch of each message that is on one, and the branches; they are numbered from 1."""
        branch: dict[int, int] = {}
        shapes: list[BranchShape] = []
        if not self._off_path:
            return branch, shapes
        parents, heavy = self.parents, self._heavy
        follower = self._followers()
        for index in self._off_path:
            parent = parents[index]
            number = branch.get(parent, 0)
            if index in heavy and (not number or follower[parent] != index):
                shapes.append(BranchShape(index, index, 0))
                number = len(shapes)
            if number:
                branch[index] = number
                root, tip, length = shapes[number - 1]
                shapes[number - 1] = BranchShape(root, index if index in heavy else tip, length + 1)
        return branch, shapes

    def _followers(self) -> dict[int, int]:
        """For each message off the path, the child that continues its branch: the one with the newest message."""
        heavy = self._heavy
        follower: dict[int, int] = {}
        for index in self._off_path:
            parent = self.parents[index]
            if index in heavy and (parent not in follower or heavy[index] > heavy[follower[parent]]):
                follower[parent] = index
        return follower


def find_cycles(parents: array[int], suspects: Iterable[int]) -> list[int]:
    """Return the first message of each cycle of parents that contains one of the suspects."""
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
