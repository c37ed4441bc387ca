"""Groups sessions into partitions of about the requested size, without splitting families."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..agents import AGENTS, SessionRef
from ..data.sources import Unreadable, size_of_logs
from .file_systems import RemoteFolder


class Partition(NamedTuple):
    """The input of one task."""

    sessions: tuple[SessionRef, ...] = ()
    """The sessions to read. Paths in mirrors are relative."""
    remotes: tuple[RemoteFolder, ...] = ()
    """One folder of each mirrored file system."""
    unreadable: tuple[Unreadable, ...] = ()
    """Sessions that were found but cannot be read."""
    size: int = 0
    """Bytes of logs."""


class Family(NamedTuple):
    """Sessions that are read together: a session with its sub-agents, its forks, and copies of any of them."""

    sessions: list[SessionRef]
    size: int


def find_families(refs: Iterable[SessionRef]) -> Iterator[Family]:
    """Yield all families, in the order of their first sessions."""
    groups = _Groups()
    sessions = list(refs)
    for number, ref in enumerate(sessions):
        shared = (ref.id, ref.parent, *AGENTS[ref.agent].shared_with(ref))
        groups.join(number, (f"{ref.agent} {name}" for name in shared if name is not None))
    for members in groups.members():
        found = [sessions[number] for number in members]
        yield Family(found, sum(map(size_of_logs, found)))


class _Groups:
    """Groups numbers that share keys, directly or through other numbers."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._owners: dict[str, int] = {}

    def join(self, number: int, keys: Iterable[str]) -> None:
        """Add the next number, and merge all groups that have one of its keys."""
        self._parents.append(number)
        for key in keys:
            owner = self._top(self._owners.setdefault(key, number))
            own = self._top(number)
            # The smallest number represents a group, so that groups stay in order.
            self._parents[max(owner, own)] = min(owner, own)

    def _top(self, number: int) -> int:
        while (parent := self._parents[number]) != number:
            self._parents[number] = number = self._parents[parent]
        return number

    def members(self) -> Iterable[list[int]]:
        """Return the numbers of each group."""
        found: dict[int, list[int]] = {}
        for number in range(len(self._parents)):
            found.setdefault(self._top(number), []).append(number)
        return found.values()


def make_partitions(
    families: Iterable[Family], size: int, portable: Callable[[SessionRef], SessionRef]
) -> list[Partition]:
    """Fill partitions with families in order, up to `size` bytes each. The largest partitions come first."""
    found: list[Partition] = []
    sessions: list[SessionRef] = []
    total = 0
    for family in families:
        if sessions and total + family.size > size:
            found.append(Partition(tuple(sessions), size=total))
            sessions, total = [], 0
        sessions += map(portable, family.sessions)
        total += family.size
    if sessions:
        found.append(Partition(tuple(sessions), size=total))
    return sorted(found, key=lambda partition: -partition.size)
