"""Limits a run to some of the changed sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ..agents import Peek, SessionRef

SessionTest = Callable[[SessionRef, Callable[[], Peek]], bool]
"""Whether to read a session; the second argument reads its first lines."""


class Work(Protocol):
    """The sessions of one folder that have to be read."""

    def refs(self) -> list[SessionRef]:
        """Return the sessions."""
        ...

    def peek(self, ref: SessionRef) -> Peek:
        """Return what the first lines of a session say."""
        ...

    def changed_at(self, ref: SessionRef) -> int:
        """Return when the files of a session last changed, in nanoseconds since 1970."""
        ...

    def keep(self, ids: set[str]) -> None:
        """Drop all other sessions."""
        ...


class SyncSelection(NamedTuple):
    """The sessions that a run reads; a later run finds the rest."""

    only: SessionTest | None = None
    limit: int | None = None
    """Maximum number of sessions; the ones that changed last are read."""

    def apply(self, folders: Sequence[Work]) -> None:
        """Drop the sessions that are not selected."""
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
            folder.keep({id for _, index, id in newest if index == number})
