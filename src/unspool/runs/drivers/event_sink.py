"""Passes the events of a driver to the supervisor."""

from __future__ import annotations

from ..protocol import DriverEvent, Emit


class EventSink:
    """Passes events to `target`, which is set when the driver is started. Earlier events are dropped."""

    def __init__(self) -> None:
        self.target: Emit | None = None

    def __call__(self, event: DriverEvent) -> None:
        """Emit an event."""
        if self.target is not None:
            self.target(event)
