"""The migrations of a version that does not exist yet."""

from __future__ import annotations

from unspool.store.migrations import Migrations


class MoreMigrations(Migrations):
    """The real steps of a kind of store, and some more after them."""

    def __init__(self, kind: str, *more: str) -> None:
        super().__init__(kind)
        self._more = list(enumerate(more, super().newest + 1))

    @property
    def newest(self) -> int:
        """The version that all steps lead to."""
        return super().newest + len(self._more)

    def after(self, version: int, location: str) -> list[tuple[int, str]]:
        """The steps that a store lacks."""
        return [*super().after(version, location), *(step for step in self._more if step[0] > version)]
