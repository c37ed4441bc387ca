"""Claude Code."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from ...core import model as m
from ...core.decision_rules import RuleText
from ...io.decode import decode_any
from ...io.files import read_whole
from ..base import Agent, AgentInfo, Colour, strings_at
from .discovery import AGENT_FILE, Surroundings
from .reader import ClaudeSource
from .repair import ClaudeRepair
from .rules import RULES
from .saved_outputs import FOLDER as SAVED
from .tools import action_of, paths_in


class Claude(Agent):
    """Claude Code by Anthropic."""

    info = AgentInfo(
        name="claude",
        title="Claude Code",
        letter="C",
        colour=Colour("#964c0a", "#eea05a"),
        folder=".claude",
        variable="CLAUDE_CONFIG_DIR",
        paths=("projects", "history.jsonl", "sessions", "jobs"),
        suffixes=(".jsonl",),
        resume=("claude", "--resume", "{id}"),
        install="pip install 'unspool[claude]'",
        source=ClaudeSource,
        repair=ClaudeRepair(),
        instructions="CLAUDE.md",
        driver="unspool.runs.drivers.claude:ClaudeDriverFactory",
    )
    rules = RULES

    def recognises(self, path: Path, head: bytes) -> bool:
        """Its lines carry a session id but, unlike those of other agents, no hash of the project."""
        return path.suffix == ".jsonl" and b'"sessionId"' in head and b'"projectHash"' not in head

    def root_of(self, path: Path) -> Path:
        """The folder that contains `projects`."""
        for parent in path.parents:
            if parent.name == "projects":
                return parent.parent
        return path.parent

    def has_layout(self, folder: Path) -> bool:
        """A configuration folder with another name contains `projects`."""
        return (folder / "projects").is_dir()

    def describe(self, name: str, raw_input: msgspec.Raw) -> m.Action:
        """What a call of one of its tools does."""
        return action_of(name, raw_input)[1]

    def touched(self, name: str, raw_input: msgspec.Raw) -> list[str]:  # noqa: ARG002 - all tools name files alike
        """The files that a call concerns."""
        return paths_in(raw_input)

    def is_log(self, path: Path) -> bool:
        """Logs, the notes beside them, and saved outputs that were too large for a line."""
        return path.suffix in (".jsonl", ".json") or path.name == "summary.md" or path.parent.name == SAVED

    def allow_command(self, prefix: tuple[str, ...]) -> RuleText | None:
        """A rule of its permission settings."""
        return self.allow_tool(f"Bash({' '.join(prefix)}:*)")

    def allow_tool(self, tool: str) -> RuleText | None:
        """A rule of its permission settings."""
        rule = {"permissions": {"allow": [tool]}}
        return RuleText(".claude/settings.json", msgspec.json.format(msgspec.json.encode(rule)).decode())

    def record_kind(self, record: dict[str, Any]) -> list[str]:
        """By its type, and by the types within it."""
        return strings_at(record, ("type",), ("subtype",), ("attachment", "type"))

    def without_conversation(self, root: Path) -> Iterator[Path]:
        """Files with nothing but summaries of other sessions, or notes about files; and warm-ups."""
        for folder in Surroundings(root).folders():
            for path in (*folder.files, *(path for _, path in folder.nested)):
                head = folder.head(path)
                if head is None or (AGENT_FILE.match(path.name) and head.is_warm_up):
                    yield path

    def retention(self, root: Path) -> timedelta | None:
        """Thirty days, unless the settings have `cleanupPeriodDays`."""
        settings = decode_any(read_whole(root / "settings.json") or b"")
        days = settings.get("cleanupPeriodDays") if isinstance(settings, dict) else None
        return timedelta(days=days if isinstance(days, int) and 0 < days < 100_000 else 30)
