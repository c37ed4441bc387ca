"""Claude Code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from ...core.proposed_actions import PathsIn

# Modules that read logs are imported on use: most commands need those of one agent, and some need none.


@cache
def _paths_in() -> PathsIn:
    """Import it once: an import statement would take as long as finding the paths of a call."""
    from .tools import paths_in

    return paths_in


@cache
def _subject_of() -> Callable[[str, msgspec.Raw], tuple[str | None, str | None]]:
    from .tools import subject_of

    return subject_of


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
        """Recognise a log by its session id; unlike the logs of other agents, it has no project hash."""
        return path.suffix == ".jsonl" and b'"sessionId"' in head and b'"projectHash"' not in head

    def root_of(self, path: Path) -> Path:
        """The folder that contains `projects`."""
        for parent in path.parents:
            if parent.name == "projects":
                return parent.parent
        return path.parent

    def has_layout(self, folder: Path) -> bool:
        """Whether a folder contains `projects`."""
        return os.path.isdir(os.path.join(folder, "projects"))

    def describe(self, name: str, raw_input: msgspec.Raw) -> m.Action:
        """What a call of one of its tools does."""
        from .tools import action_of

        return action_of(name, raw_input)[1]

    def subject(self, name: str, raw_input: msgspec.Raw) -> tuple[str | None, str | None]:
        """The command and the path of a call, if any."""
        return _subject_of()(name, raw_input)

    def answers(self, action: m.Action, result: m.ToolResult) -> dict[str, str]:
        """A person's answers to the questions of a call."""
        from .tools import answers_in

        return answers_in(action.questions, result.content)

    def markdown_of(self, name: str, result: m.ToolResult) -> str | None:
        """The result of a sub-agent, a web page or a web search."""
        from .tools import MARKDOWN_TOOLS, with_links

        return with_links(result.whole) if name in MARKDOWN_TOOLS else None

    def cells_written(self, name: str, raw_input: msgspec.Raw) -> list[NotebookCell]:
        """The cell of a `NotebookEdit`, or the cells of a notebook that is written as a file."""
        from .tools import cells_written

        return cells_written(name, raw_input)

    def cells_read(self, name: str, raw_input: msgspec.Raw, result: m.ToolResult) -> list[NotebookCell]:
        """The cells that `Read` shows, or those of a notebook that is the result of another call."""
        from .tools import cells_shown

        if name == "Read" and (cells := cells_shown(result.whole)):
            return cells
        return super().cells_read(name, raw_input, result)

    def touched(self, name: str, raw_input: msgspec.Raw) -> list[str]:  # noqa: ARG002 - all tools name files alike
        """The files that a call concerns."""
        return _paths_in()(raw_input)

    log_suffixes = (".jsonl", ".json")

    def is_log(self, path: Path) -> bool:
        """Whether a file is a log, has facts about sessions, or is a saved output that was too large for a line."""
        return path.name.endswith(self.log_suffixes) or path.name == "summary.md" or path.parent.name == SAVED

    def shared_with(self, ref: SessionRef) -> Iterator[str | None]:
        """Its first message, and the sessions that its first lines name."""
        from .heads import read_head

        head = read_head(ref.path)
        if head is not None:
            yield from (head.first_uuid, head.session, head.forked_from, head.process_session)

    def shapes_lists(self, path: Path) -> bool:
        """Whether a file is a log in a project's folder: one with only summaries has the titles of other sessions."""
        return path.suffix == ".jsonl" and path.parent.parent.name == "projects"

    def allow_command(self, prefix: tuple[str, ...]) -> RuleText | None:
        """A rule for the project's permission settings."""
        return self.allow_tool(f"Bash({' '.join(prefix)}:*)")

    def allow_tool(self, tool: str) -> RuleText | None:
        """A rule for the project's permission settings."""
        rule = {"permissions": {"allow": [tool]}}
        return RuleText(".claude/settings.json", formatted_json(rule))

    def mcp_settings(self, connection: McpConnection) -> RuleText | None:
        """An entry for the project's MCP settings."""
        server: dict[str, Any]
        if connection.url:
            headers = {"Authorization": f"Bearer ${{{connection.token_variable}}}"}
            server = {"type": "http", "url": connection.url, "headers": headers}
        else:
            server = {"command": connection.command[0], "args": connection.command[1:]}
        return RuleText(".mcp.json", formatted_json({"mcpServers": {connection.name: server}}))

    def calling_session(self, caller: ToolCaller) -> str | None:
        """The session in the register of running processes, which is right after a clear too, or in the environment."""
        from .discovery import session_of_process

        opened = session_of_process(caller.processes, caller.roots)
        return opened or caller.environment.get("CLAUDE_CODE_SESSION_ID")

    def record_kind(self, record: dict[str, Any]) -> list[str]:
        """The type of a record, its subtype, and the type of its attachment."""
        return strings_at(record, ("type",), ("subtype",), ("attachment", "type"))

    def without_conversation(self, root: Path) -> Iterator[Path]:
        """Files that only have summaries of other sessions or notes about files, and warm-ups."""
        from .discovery import AGENT_FILE, ClaudeHome

        for folder in ClaudeHome(root).folders():
            for path in (*folder.files, *(path for _, path in folder.nested)):
                head = folder.head(path)
                if head is None or (AGENT_FILE.match(path.name) and head.is_warm_up):
                    yield path

    def retention(self, root: Path) -> timedelta | None:
        """Thirty days, unless the settings have `cleanupPeriodDays`."""
        settings = decode_any(read_whole(root / "settings.json") or b"")
        days = settings.get("cleanupPeriodDays") if isinstance(settings, dict) else None
        return timedelta(days=days if isinstance(days, int) and 0 < days < 100_000 else 30)
