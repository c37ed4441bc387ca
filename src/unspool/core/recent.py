"""A dictionary of bounded size."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A dictionary that keeps at least the last `limit` keys and drops older ones, to bound its size for any log."""

    __slots__ = ("limit", "new", "old")

    def __init__(self, limit: int = 1 << 16) -> None:
        self.new: dict[K, V] = {}
        self.old: dict[K, V] = {}
        self.limit = limit

    def get(self, key: K) -> V | None:
        """Return the value, or None if the key is unknown or was dropped."""
        value = self.new.get(key)
        return value if value is not None or not self.old else self.old.get(key)

    def put(self, key: K, value: V) -> None:
        """Set a value."""
        if len(self.new) >= self.limit:
            self.rotate()
        self.new[key] = value

    def rotate(self) -> None:
        """Drop the older half to make room."""
        self.old, self.new = self.new, {}
