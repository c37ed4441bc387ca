"""Sessions that stay: whole, searchable, and told apart by the machine they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .locate import open_store

if TYPE_CHECKING:
    from .base import Store

__all__ = ["Store", "open_store"]


def __getattr__(name: str) -> object:
    # Reading a session looks for decisions that stand beside the store; it needs neither the store nor its search.
    if name != "Store":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .base import Store

    return Store
