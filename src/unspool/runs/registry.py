"""The agents that can be run: the only list of them."""

from __future__ import annotations

from .drivers.claude import ClaudeKind
from .drivers.codex import CodexKind
from .drivers.gemini import GeminiKind
from .protocol import Kind

KINDS: dict[str, Kind] = {kind.name: kind for kind in (ClaudeKind(), CodexKind(), GeminiKind())}
