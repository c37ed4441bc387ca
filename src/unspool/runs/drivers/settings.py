"""The mode and the model of one agent, as they were last reported."""

from __future__ import annotations

from ...core.errors import UsageError
from ..protocol import Emit, SettingsChanged

_ID_SIGNS = frozenset("-./:[@")
"""What ids of models have in them, and short names do not."""


def check_model(title: str, model: str | None, offered: tuple[str, ...]) -> None:
    """Raise for a short name that the agent does not offer. Providers know more ids than agents list."""
    if model is None or not offered or model in offered or _ID_SIGNS & set(model):
        return
    raise UsageError(f"{title} has no model {model!r}; it offers: {', '.join(offered)}")


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
