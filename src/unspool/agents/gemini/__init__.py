"""Gemini CLI."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ... import model as m
from .._base import AgentInfo
from .reader import GeminiHome
from .tools import action_of


class Gemini:
    """Gemini CLI by Google."""

    info = AgentInfo(
        name="gemini",
        title="Gemini CLI",
        folder=".gemini",
        variable="GEMINI_CLI_HOME",
        variable_is_home=True,
        resume=("gemini", "--resume", "{id}"),
    )

    def open(self, root: Path) -> GeminiHome:
        """Sessions in a `.gemini` folder."""
        return GeminiHome(root)

    def owns(self, path: Path, head: bytes) -> bool:
        """Its first record names the session and the hash of the project."""
        return path.suffix in (".json", ".jsonl") and b'"projectHash"' in head and b'"sessionId"' in head

    def root_of(self, path: Path) -> Path:
        """The folder above `tmp`."""
        for parent in path.parents:
            if parent.name == "chats":
                return parent.parent.parent.parent
        return path.parent

    def has_layout(self, folder: Path) -> bool:
        """A folder of another name with chats in it."""
        return any((folder / "tmp").glob("*/chats"))

    def describe(self, name: str, raw_input: msgspec.Raw) -> m.Action:
        """What a call does."""
        return action_of(name, raw_input, None)[1]
