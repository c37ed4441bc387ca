"""The mode and the model of one agent, as they were last reported."""

from __future__ import annotations

from ..protocol import Emit, SettingsChanged


class ReportedSettings:
    """The mode and the model. Each change is emitted once."""

    def __init__(self, emit: Emit) -> None:
        self.mode: str | None = None
        self.model: str | None = None
        self.is_reporting = False
        """False during the start, because `Started` includes the settings."""
        self._emit = emit

    def update(self, mode: str | None = None, model: str | None = None) -> None:
        """Update the given settings, and emit those that have changed."""
        new_mode = mode if mode != self.mode else None
        new_model = model if model != self.model else None
        self.mode, self.model = mode or self.mode, model or self.model
        if (new_mode or new_model) and self.is_reporting:
            self._emit(SettingsChanged(mode=new_mode, model=new_model))
