"""Clears whose only trace is another file: /clear restarts the recorder with the same id (0.22.4)."""

from __future__ import annotations

from ...core import model as m
from ...core.builder import SessionBuilder

_CONFIDENCE = 0.7


class NewFile:
    """The start of another file of a session, until its first request shows whether the context was cleared.

    A resume continues the old file, and a copy of a file repeats its messages. So it was /compress, which leaves a
    note, or /clear, after which the request is smaller than the last one of the old file.
    """

    def __init__(self, builder: SessionBuilder) -> None:
        self.is_open = False
        """Whether the next messages may begin another conversation."""
        self._builder = builder
        self._first = 0
        self._last_reply = 0
        self._tokens = 0

    def begin(self, last_reply: int, tokens: int | None) -> None:
        """Begin another file; `tokens` is the size of the last request."""
        self.is_open = tokens is not None
        self._first, self._last_reply, self._tokens = len(self._builder), last_reply, tokens or 0

    def request(self, tokens: int) -> None:
        """Read the size of the first request in the file."""
        self.is_open = False
        boundaries = self._builder.events.boundaries
        is_compressed = any(boundary.message_index > self._last_reply for boundary in boundaries)
        if tokens < self._tokens and not is_compressed:
            self._builder.events.context_clears.append(
                m.ContextClear(after_message_index=self._first - 1, evidence="session", confidence=_CONFIDENCE)
            )
