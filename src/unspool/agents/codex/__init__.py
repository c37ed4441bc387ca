"""Codex CLI."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec

from ...core import model as m
from ..base import AgentInfo
from .discovery import rollout_file
from .reader import CodexSource
from .repair import CodexRepair
from .tools import action_of, paths_in


class Codex:
    """Codex CLI by OpenAI."""

    info = AgentInfo(
        name="codex",
        title="Codex CLI",
        folder=".codex",
        variable="CODEX_HOME",
        places=("sessions", "archived_sessions", "history.jsonl", "session_index.jsonl"),
        resume=("codex", "resume", "{id}"),
    )

    repair_strategy = CodexRepair()

    def open(self, root: Path) -> CodexSource:
        """Threads in a `.codex` folder."""
        return CodexSource(root)

    def recognises(self, path: Path, head: bytes) -> bool:
        """Known by its name, or by its first line."""
        return rollout_file(path) is not None or b'"session_meta"' in head

    def root_of(self, path: Path) -> Path:
        """The folder above `sessions`."""
        for parent in path.parents:
            if parent.name in ("sessions", "archived_sessions"):
                return parent.parent
        return path.parent

    def has_layout(self, folder: Path) -> bool:
        """A folder of another name with dated sessions in it."""
        return (folder / "archived_sessions").is_dir() or any((folder / "sessions").glob("[0-9]*"))

    def describe(self, name: str, raw_input: msgspec.Raw) -> m.Action:
        """What a call does."""
        return action_of(name, raw_input)[1]

    def touched(self, name: str, raw_input: msgspec.Raw) -> list[str]:  # noqa: ARG002 - all tools name files alike
        """The files a call is about."""
        return paths_in(raw_input)

    def is_log(self, path: Path) -> bool:
        """Rollouts, and the two indexes."""
        return path.name.endswith((".jsonl", ".jsonl.zst", ".json"))

    def retention(self, root: Path) -> timedelta | None:  # noqa: ARG002 - it has no such setting
        """It compresses old threads, and deletes none."""
        return None
