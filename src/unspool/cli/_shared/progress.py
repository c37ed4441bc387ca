"""A progress line for long work, shown only on a terminal and never mixed with the output."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_PATIENCE_SECONDS = 0.5
_BETWEEN_SECONDS = 0.1


def with_progress(items: Iterable[T], what: str, *, collects: bool = False) -> Iterator[T]:
    """Yield the items, and show their number so far if it takes long.

    If the output goes to the same terminal, the line is only visible while the next item is found. With `collects`,
    nothing is printed before the last item, so the line can stay.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    line = _Line()
    clears = sys.stdout.isatty() and not collects
    try:
        for count, item in enumerate(items, 1):
            if clears:
                line.clear()
            yield item
            line.show(f"{count:,} {what} …")
    finally:
        line.clear()


class _Line:
    """A line on the terminal that is updated at most ten times a second, and removed at the end."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PATIENCE_SECONDS
        self._width = 0

    def show(self, text: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _BETWEEN_SECONDS
            self._width = len(text)
            print(f"\r{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._width:
            print(f"\r{' ' * self._width}\r", end="", file=sys.stderr, flush=True)
            self._width = 0
