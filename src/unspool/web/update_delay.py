"""The reason why changes of files are noticed late, which pages show. Like the runs, it is set for each query."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_reason: ContextVar[str | None] = ContextVar("update delay", default=None)


@contextmanager
def known_delay(reason: str | None) -> Iterator[None]:
    """Use this reason in the block."""
    token = _reason.set(reason)
    try:
        yield
    finally:
        _reason.reset(token)


def delay_reason() -> str | None:
    """Return the reason why changes are noticed late; None if they are not."""
    return _reason.get()
