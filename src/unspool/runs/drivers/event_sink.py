"""Where the events of a driver go."""

from __future__ import annotations

from ..protocol import DriverEvent, Emit


class EventSink:
    """Passes events on to the supervisor from the moment the driver is started."""

    def __init__(self) -> None:
        self.target: Emit | None = None

    def __call__(self, event: DriverEvent) -> None:
        """Emit an event."""
        if self.target is not None:
            self.target(event)
