"""The mode and the model of one agent, as they were last reported."""

from __future__ import annotations

from ..protocol import Emit, SettingsChanged


class ReportedSettings:
    """Mode and model; changes are emitted once."""

    def __init__(self, emit: Emit) -> None:
        self.mode: str | None = None
        self.model: str | None = None
        self.is_reporting = False
        """Changes during the start are part of `Started`."""
        self._emit = emit

    def update(self, mode: str | None = None, model: str | None = None) -> None:
        """Take over what is given, and emit what has changed."""
        new_mode = mode if mode != self.mode else None
        new_model = model if model != self.model else None
        self.mode, self.model = mode or self.mode, model or self.model
        if (new_mode or new_model) and self.is_reporting:
            self._emit(SettingsChanged(mode=new_mode, model=new_model))
