"""The agents that can be run, by name."""

from __future__ import annotations

from .drivers.claude import ClaudeDriverFactory
from .drivers.codex import CodexDriverFactory
from .drivers.gemini import GeminiDriverFactory
from .protocol import DriverFactory

_FACTORIES: tuple[DriverFactory, ...] = (ClaudeDriverFactory(), CodexDriverFactory(), GeminiDriverFactory())
DRIVERS: dict[str, DriverFactory] = {factory.name: factory for factory in _FACTORIES}
