"""Requests of one agent that are waiting for an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ..protocol import Emit, PermissionRequest, RequestCancelled

T = TypeVar("T")


class PendingRequests(Generic[T]):
    """The requests of one agent by id, each with a value that its driver needs to answer it.

    `show` may be called later than `add`. Only requests that have been shown are reported as cancelled.
    """

    def __init__(self, prefix: str, emit: Emit) -> None:
        self._prefix = prefix
        self._emit = emit
        self._count = 0
        self._pending: dict[str, T] = {}
        self._shown: set[str] = set()

    def __contains__(self, id: object) -> bool:
        return id in self._pending

    def new_id(self) -> str:
        """Return a new id, unique among the requests of this agent."""
        self._count += 1
        return f"{self._prefix}-{self._count}"

    def add(self, id: str, value: T) -> None:
        """Add a request."""
        self._pending[id] = value

    def show(self, request: PermissionRequest) -> None:
        """Emit a request, unless it has been cancelled in the meantime."""
        if request.id in self._pending:
            self._shown.add(request.id)
            self._emit(request)

    def get(self, id: str) -> T | None:
        """Return the value of a request."""
        return self._pending.get(id)

    def take(self, id: str) -> T | None:
        """Remove a request that is being answered, and return its value; None if it is no longer pending."""
        self._shown.discard(id)
        return self._pending.pop(id, None)

    def cancel(self, id: str) -> T | None:
        """Remove a request that the agent has withdrawn, report that, and return its value."""
        value = self._pending.pop(id, None)
        if id in self._shown:
            self._shown.discard(id)
            self._emit(RequestCancelled(id))
        return value

    def cancel_where(self, matches: Callable[[T], bool] = lambda _: True) -> list[T]:
        """Cancel all matching requests; return their values."""
        ids = [id for id, value in self._pending.items() if matches(value)]
        return [value for id in ids if (value := self.cancel(id)) is not None]
