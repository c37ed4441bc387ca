"""Which of the changed sessions a run reads, if not all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ..agents import Peek, SessionRef

SessionTest = Callable[[SessionRef, Callable[[], Peek]], bool]
"""Whether to read a session; the second argument reads its first lines."""


class Work(Protocol):
    """The sessions of one folder that have to be read."""

    def refs(self) -> list[SessionRef]:
        """The sessions."""
        ...

    def peek(self, ref: SessionRef) -> Peek:
        """The first lines of a session."""
        ...

    def changed_at(self, ref: SessionRef) -> int:
        """When its files last changed, in nanoseconds since 1970."""
        ...

    def keep(self, ids: set[str]) -> None:
        """Leave out the other sessions."""
        ...


class SyncSelection(NamedTuple):
    """What a run reads; a later one finds the rest."""

    only: SessionTest | None = None
    limit: int | None = None
    """Only this number of the sessions that changed last."""

    def apply(self, folders: Sequence[Work]) -> None:
        """Leave out what is not to be read."""
        if self.only is None and self.limit is None:
            return
        found = [
            (folder.changed_at(ref), number, ref.id)
            for number, folder in enumerate(folders)
            for ref in folder.refs()
            if self.only is None or self.only(ref, lambda folder=folder, ref=ref: folder.peek(ref))  # type: ignore[misc]
        ]
        newest = sorted(found, reverse=True)[: self.limit]
        for number, folder in enumerate(folders):
            folder.keep({id for _, place, id in newest if place == number})
