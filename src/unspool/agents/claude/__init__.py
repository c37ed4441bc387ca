"""Claude Code."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec

from ...core import model as m
from ...io.decode import decode_any
from ...io.files import read_whole
from ..base import AgentInfo
from .reader import ClaudeSource
from .repair import ClaudeRepair
from .saved_outputs import FOLDER as SAVED
from .tools import action_of, paths_in


class Claude:
    """Claude Code by Anthropic."""

    info = AgentInfo(
        name="claude",
        title="Claude Code",
        folder=".claude",
        variable="CLAUDE_CONFIG_DIR",
        places=("projects", "history.jsonl", "sessions", "jobs"),
        resume=("claude", "--resume", "{id}"),
    )

    repair_strategy = ClaudeRepair()

    def open(self, root: Path) -> ClaudeSource:
        """Sessions in a `.claude` folder."""
        return ClaudeSource(root)

    def recognises(self, path: Path, head: bytes) -> bool:
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

    def touched(self, name: str, raw_input: msgspec.Raw) -> list[str]:  # noqa: ARG002 - all tools name files alike
        """The files a call is about."""
        return paths_in(raw_input)

    def is_log(self, path: Path) -> bool:
        """Logs, the notes beside them, and outputs that were too large for a line."""
        return path.suffix in (".jsonl", ".json") or path.name == "summary.md" or path.parent.name == SAVED

    def retention(self, root: Path) -> timedelta | None:
        """Thirty days, or what `cleanupPeriodDays` says."""
        settings = decode_any(read_whole(root / "settings.json") or b"")
        days = settings.get("cleanupPeriodDays") if isinstance(settings, dict) else None
        return timedelta(days=days if isinstance(days, int) and 0 < days < 100_000 else 30)
