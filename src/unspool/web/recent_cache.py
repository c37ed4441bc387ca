"""A cache of the most recently used results, shared by the threads of the pool."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class RecentCache(Generic[K, T]):
    """Remembers the results for the last few keys."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: OrderedDict[K, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K, compute: Callable[[], T]) -> T:
        """Return the result for a key. Threads that ask for it at the same time may each compute it."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        found = compute()
        with self._lock:
            self._known[key] = found
            self._known.move_to_end(key)
            while len(self._known) > self._size:
                self._known.popitem(last=False)
        return found

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._known.clear()
