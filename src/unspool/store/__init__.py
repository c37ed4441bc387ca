"""The store: sessions that stay available and searchable after the agents delete their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .locate import open_store

if TYPE_CHECKING:
    from .store import Store

__all__ = ["Store", "open_store"]


def __getattr__(name: str) -> object:
    # Programs that only need a path or recorded decisions should not load the store and its search.
    if name != "Store":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .store import Store

    return Store
