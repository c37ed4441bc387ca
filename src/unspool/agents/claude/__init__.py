"""Claude Code."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ... import model as m
from .._base import AgentInfo
from .reader import ClaudeHome
from .tools import action_of


class Claude:
    """Claude Code by Anthropic."""

    info = AgentInfo(
        name="claude",
        title="Claude Code",
        folder=".claude",
        variable="CLAUDE_CONFIG_DIR",
        resume=("claude", "--resume", "{id}"),
    )

    def open(self, root: Path) -> ClaudeHome:
        """Sessions in a `.claude` folder."""
        return ClaudeHome(root)

    def owns(self, path: Path, head: bytes) -> bool:
        """Its lines carry a session id, and a parent or a type of its own."""
        return path.suffix == ".jsonl" and b'"sessionId"' in head and b'"projectHash"' not in head

    def root_of(self, path: Path) -> Path:
        """The folder above `projects`."""
        for parent in path.parents:
            if parent.name == "projects":
                return parent.parent
        return path.parent

    def has_layout(self, folder: Path) -> bool:
        """A configuration folder of another name."""
        return (folder / "projects").is_dir()

    def describe(self, name: str, raw_input: msgspec.Raw) -> m.Action:
        """What a call does."""
        return action_of(name, raw_input)[1]
