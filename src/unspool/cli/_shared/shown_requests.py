"""The requests that a terminal has shown, so that input only answers a request that the person has seen."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

from ...core.errors import UnspoolError

Json = dict[str, Any]


class ShownRequests:
    """Open requests by number, as they were shown. One thread shows them while another one reads the input."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, Json] = {}
        self._count = 0
        self._since_line: list[int] = []
        """The requests that were shown since the last line of input."""

    @property
    def is_any_open(self) -> bool:
        """Whether a request was shown and is waiting for an answer."""
        return bool(self._open)

    def show(self, open_request: Json) -> int | None:
        """Return a number for a request, or None if it was shown before. A changed request gets a new number."""
        with self._lock:
            for number, known in list(self._open.items()):
                if known["asked"]["id"] == open_request["asked"]["id"]:
                    if known["digest"] == open_request["digest"]:
                        return None
                    del self._open[number]
            self._count += 1
            self._open[self._count] = open_request
            self._since_line.append(self._count)
            return self._count

    def close(self, id: str) -> None:
        """Close a request: it was answered, or the agent withdrew it."""
        with self._lock:
            self._open = {number: each for number, each in self._open.items() if each["asked"]["id"] != id}

    def keep_only(self, ids: Collection[str]) -> None:
        """Close all other requests."""
        with self._lock:
            self._open = {number: each for number, each in self._open.items() if each["asked"]["id"] in ids}

    def line_was_typed(self) -> None:
        """Record that a line of input was executed or rejected."""
        with self._lock:
            self._since_line.clear()

    def pick(self, text: str) -> tuple[Json, str]:
        """Return the request that a line refers to, and the rest of the line.

        Without a number, it is the only open one. But if another one was shown while the line was being typed, the
        person may have meant that one, even if it is closed by now.
        """
        name, _, rest = text.partition(" ")
        with self._lock:
            if name.startswith("#"):
                number = int(name[1:]) if name[1:].isdecimal() else 0
                if number not in self._open:
                    raise UnspoolError(f"Request {name} is not open")
                return self._open[number], rest.strip()
            if not self._open:
                raise UnspoolError("No request is open. To send this as a message, type `m` before it")
            candidates = sorted({*self._open, *self._since_line})
            if len(candidates) > 1:
                listed = " or ".join(f"#{number}" for number in sorted(self._open))
                raise UnspoolError(f"Several requests were shown. Name the one you mean: {listed}")
            return self._open[candidates[0]], text
