"""A progress line for long work, shown only on a terminal and never mixed with the output."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_PATIENCE_SECONDS = 0.5


def watched(items: Iterable[T], what: str) -> Iterator[T]:
    """Yield the items, and show how many there were if it takes long."""
    # Output on the same terminal would collide with the progress line.
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield from items
        return
    shown_at = time.monotonic() + _PATIENCE_SECONDS
    count = 0
    shown = False
    try:
        for count, item in enumerate(items, 1):
            if time.monotonic() >= shown_at:
                print(f"\r{count:,} {what} …", end="", file=sys.stderr, flush=True)
                shown_at = time.monotonic() + 0.1
                shown = True
            yield item
    finally:
        if shown:
            print(f"\r{count:,} {what}  ", file=sys.stderr, flush=True)
