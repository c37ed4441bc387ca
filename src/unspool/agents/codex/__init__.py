"""Codex CLI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ...core import model as m
from ...core.decision_rules import RuleText
from ..base import Agent, AgentInfo, Colour, strings_at
from .discovery import rollout_file
from .reader import CodexSource
from .repair import CodexRepair
from .rules import RULES
from .tools import action_of, paths_in


class Codex(Agent):
    """Codex CLI by OpenAI."""

    info = AgentInfo(
        name="codex",
        title="Codex CLI",
        letter="X",
        colour=Colour("#0d6b52", "#5cc7a5"),
        folder=".codex",
        variable="CODEX_HOME",
        paths=("sessions", "archived_sessions", "history.jsonl", "session_index.jsonl"),
        suffixes=(".jsonl", ".jsonl.zst", ".json"),
        resume=("codex", "resume", "{id}"),
        install="pip install 'unspool[codex]'",
        source=CodexSource,
        repair=CodexRepair(),
        driver="unspool.runs.drivers.codex:CodexDriverFactory",
    )
    rules = RULES

    def recognises(self, path: Path, head: bytes) -> bool:
        """A rollout is recognised by its name, or by its first line."""
        return rollout_file(path) is not None or b'"session_meta"' in head

    def root_of(self, path: Path) -> Path:
        """The folder that contains `sessions`."""
        for parent in path.parents:
            if parent.name in ("sessions", "archived_sessions"):
                return parent.parent
        return path.parent

    def has_layout(self, folder: Path) -> bool:
        """A folder with another name contains sessions by date."""
        return (folder / "archived_sessions").is_dir() or any((folder / "sessions").glob("[0-9]*"))

    def describe(self, name: str, raw_input: msgspec.Raw) -> m.Action:
        """What a call of one of its tools does."""
        return action_of(name, raw_input)[1]

    def touched(self, name: str, raw_input: msgspec.Raw) -> list[str]:  # noqa: ARG002 - all tools name files alike
        """The files that a call concerns."""
        return paths_in(raw_input)

    def allow_command(self, prefix: tuple[str, ...]) -> RuleText | None:
        """A rule of its execution policy."""
        pattern = ", ".join(f'"{word}"' for word in prefix)
        return RuleText("~/.codex/rules/default.rules", f'prefix_rule(pattern=[{pattern}], decision="allow")')

    def record_kind(self, record: dict[str, Any]) -> list[str]:
        """By its type, and by the types within it."""
        return strings_at(record, ("type",), ("payload", "type"), ("payload", "item", "type"))
