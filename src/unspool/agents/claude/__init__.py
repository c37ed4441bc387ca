"""Claude Code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from ...core import model as m
from ...core.decision_rules import RuleText
from ...core.notebook_cells import NotebookCell
from ...io.decode import decode_any
from ...io.files import read_whole
from .._repair import RepairStrategy
from ..base import (
    Agent,
    AgentInfo,
    Colour,
    McpConnection,
    SessionRef,
    SessionSource,
    ToolCaller,
    formatted_json,
    strings_at,
)
from .rules import RULES
from .saved_outputs import FOLDER as SAVED

# What reads logs is imported where it is used: most commands need that of one agent, and some of none.


def _source(root: Path) -> SessionSource:
    from .reader import ClaudeSource

    return ClaudeSource(root)


def _repair() -> RepairStrategy:
    from .repair import ClaudeRepair

    return ClaudeRepair()


class Claude(Agent):
    """Claude Code by Anthropic."""

    info = AgentInfo(
        name="claude",
        title="Claude Code",
        provider="anthropic",
        letter="C",
        colour=Colour("#964c0a", "#eea05a"),
        folder=".claude",
        variable="CLAUDE_CONFIG_DIR",
        paths=("projects", "history.jsonl", "sessions", "jobs"),
        suffixes=(".jsonl",),
        resume=("claude", "--resume", "{id}"),
        install="pip install 'unspool[claude]'",
        source=_source,
        repair=_repair,
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
        return os.path.isdir(os.path.join(folder, "projects"))

    def describe(self, name: str, raw_input: msgspec.Raw) -> m.Action:
        """What a call of one of its tools does."""
        from .tools import action_of

        return action_of(name, raw_input)[1]

    def subject(self, name: str, raw_input: msgspec.Raw) -> tuple[str | None, str | None]:
        """The command and the path of what a call does."""
        from .tools import subject_of

        return subject_of(name, raw_input)

    def answers(self, action: m.Action, result: m.ToolResult) -> dict[str, str]:
        """What a person answered to the questions of a call."""
        from .tools import answers_in

        return answers_in(action.questions, result.content)

    def markdown_of(self, name: str, result: m.ToolResult) -> str | None:
        """Answers of sub-agents, web pages and web searches."""
        from .tools import MARKDOWN_TOOLS, with_links

        return with_links(result.whole) if name in MARKDOWN_TOOLS else None

    def cells_written(self, name: str, raw_input: msgspec.Raw) -> list[NotebookCell]:
        """Those of `NotebookEdit`, and of a notebook that is written as a file."""
        from .tools import cells_written

        return cells_written(name, raw_input)

    def cells_read(self, name: str, raw_input: msgspec.Raw, result: m.ToolResult) -> list[NotebookCell]:
        """Those that `Read` shows."""
        from .tools import cells_shown

        if name == "Read" and (cells := cells_shown(result.whole)):
            return cells
        return super().cells_read(name, raw_input, result)

    def touched(self, name: str, raw_input: msgspec.Raw) -> list[str]:  # noqa: ARG002 - all tools name files alike
        """The files that a call concerns."""
        from .tools import paths_in

        return paths_in(raw_input)

    log_suffixes = (".jsonl", ".json")

    def is_log(self, path: Path) -> bool:
        """Logs, the notes beside them, and saved outputs that were too large for a line."""
        return path.suffix in self.log_suffixes or path.name == "summary.md" or path.parent.name == SAVED

    def shared_with(self, ref: SessionRef) -> Iterator[str | None]:
        """Its first message, and the sessions that its first lines name."""
        from .heads import read_head

        head = read_head(ref.path)
        if head is not None:
            yield from (head.first_uuid, head.session, head.forked_from, head.process_session)

    def shapes_lists(self, path: Path) -> bool:
        """Logs with nothing but summaries are the titles of other sessions."""
        return path.suffix == ".jsonl" and path.parent.parent.name == "projects"

    def allow_command(self, prefix: tuple[str, ...]) -> RuleText | None:
        """A rule of its permission settings."""
        return self.allow_tool(f"Bash({' '.join(prefix)}:*)")

    def allow_tool(self, tool: str) -> RuleText | None:
        """A rule of its permission settings."""
        rule = {"permissions": {"allow": [tool]}}
        return RuleText(".claude/settings.json", formatted_json(rule))

    def mcp_settings(self, connection: McpConnection) -> RuleText | None:
        """A server of the project."""
        server: dict[str, Any]
        if connection.url:
            headers = {"Authorization": f"Bearer ${{{connection.token_variable}}}"}
            server = {"type": "http", "url": connection.url, "headers": headers}
        else:
            server = {"command": connection.command[0], "args": connection.command[1:]}
        return RuleText(".mcp.json", formatted_json({"mcpServers": {connection.name: server}}))

    def calling_session(self, caller: ToolCaller) -> str | None:
        """By its register of running programs, which knows the session after a clear; else by the environment."""
        from .discovery import session_of_process

        opened = session_of_process(caller.processes, caller.roots)
        return opened or caller.environment.get("CLAUDE_CODE_SESSION_ID")

    def record_kind(self, record: dict[str, Any]) -> list[str]:
        """By its type, and by the types within it."""
        return strings_at(record, ("type",), ("subtype",), ("attachment", "type"))

    def without_conversation(self, root: Path) -> Iterator[Path]:
        """Files with nothing but summaries of other sessions, or notes about files; and warm-ups."""
        from .discovery import AGENT_FILE, Surroundings

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
