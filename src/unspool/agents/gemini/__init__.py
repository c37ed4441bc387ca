"""Gemini CLI."""

from __future__ import annotations

import os
import re
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
from ..base import Agent, AgentInfo, Colour, McpConnection, SessionSource, ToolCaller, formatted_json
from .rules import RULES

_AGE = re.compile(r"(\d{1,5})([hdwm])")
_DAYS = {"h": 1 / 24, "d": 1, "w": 7, "m": 30}

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
    from .reader import GeminiSource

    return GeminiSource(root)


def _repair() -> RepairStrategy:
    from .repair import GeminiRepair

    return GeminiRepair()


class Gemini(Agent):
    """Gemini CLI by Google."""

    info = AgentInfo(
        name="gemini",
        title="Gemini CLI",
        provider="gcp.gemini",
        letter="G",
        colour=Colour("#3c55c8", "#8ba0ff"),
        folder=".gemini",
        variable="GEMINI_CLI_HOME",
        variable_is_home=True,
        paths=("tmp", "projects.json"),
        suffixes=(".json", ".jsonl"),
        resume=("gemini", "--resume", "{id}"),
        install="npm install -g @google/gemini-cli",
        source=_source,
        repair=_repair,
        instructions="GEMINI.md",
        driver="unspool.runs.drivers.gemini:GeminiDriverFactory",
    )
    rules = RULES

    def without_conversation(self, root: Path) -> Iterator[Path]:
        """Files of sessions in which nothing was typed."""
        from .discovery import GeminiFolder

        folder = GeminiFolder(root)
        known = {head.path for files in folder.sessions.values() for head in files.heads}
        for project in folder.projects:
            yield from (path for path in project.files if path not in known)

    def recognises(self, path: Path, head: bytes) -> bool:
        """Recognise a log by its folder and name, or by the session and the project hash in its first record.

        Its location is enough, as the first record may be damaged. Some documents call the session `id`.
        """
        if path.suffix not in (".json", ".jsonl"):
            return False
        if path.parent.name == "chats" and path.name.startswith("session-"):
            return True
        if b'"projectHash"' not in head:
            return False
        return b'"sessionId"' in head or (path.suffix == ".json" and b'"id"' in head)

    def root_of(self, path: Path) -> Path:
        """The folder that contains `tmp`."""
        for parent in path.parents:
            if parent.name == "chats":
                return parent.parent.parent.parent
        return path.parent

    def has_layout(self, folder: Path) -> bool:
        """Whether a folder contains chats."""
        # This runs for every home, and almost none has such a folder: a glob takes much longer than `isdir`.
        return os.path.isdir(os.path.join(folder, "tmp")) and any((folder / "tmp").glob("*/chats"))

    def describe(self, name: str, raw_input: msgspec.Raw) -> m.Action:
        """What a call of one of its tools does."""
        from .tools import action_of

        return action_of(name, raw_input, None)[1]

    def subject(self, name: str, raw_input: msgspec.Raw) -> tuple[str | None, str | None]:
        """The command and the path of a call, if any."""
        return _subject_of()(name, raw_input)

    def answers(self, action: m.Action, result: m.ToolResult) -> dict[str, str]:
        """A person's answers by question; the result has them by the number of the question."""
        from ...core.proposed_actions import json_answers

        return json_answers(action.questions, map(str, range(len(action.questions))), result.content)

    def markdown_of(self, name: str, result: m.ToolResult) -> str | None:
        """The result of a sub-agent, a web page or a web search."""
        from .tools import MARKDOWN_TOOLS

        return result.whole if name in MARKDOWN_TOOLS else None

    def cells_written(self, name: str, raw_input: msgspec.Raw) -> list[NotebookCell]:
        """The cells of a notebook that is written as a file."""
        from .tools import cells_written

        return cells_written(name, raw_input)

    def touched(self, name: str, raw_input: msgspec.Raw) -> list[str]:  # noqa: ARG002 - all tools name files alike
        """The files that a call concerns."""
        return _paths_in()(raw_input)

    def is_log(self, path: Path) -> bool:
        """Whether a file is a chat, a prompt log or names a project; the folder for temporary files has many others."""
        return path.name in ("logs.json", "projects.json", ".project_root") or (
            path.suffix in (".json", ".jsonl") and "chats" in path.parts
        )

    def shapes_lists(self, path: Path) -> bool:
        """Whether a file is not the prompt log; some other files name the projects."""
        return path.name != "logs.json"

    def allow_command(self, prefix: tuple[str, ...]) -> RuleText | None:
        """A rule for the project's settings."""
        return self.allow_tool(f"run_shell_command({' '.join(prefix)})")

    def allow_tool(self, tool: str) -> RuleText | None:
        """A rule for the project's settings."""
        rule = {"tools": {"allowed": [tool]}}
        return RuleText(".gemini/settings.json", formatted_json(rule))

    def mcp_settings(self, connection: McpConnection) -> RuleText | None:
        """An entry for the project's settings."""
        server: dict[str, Any]
        if connection.url:
            server = {
                "httpUrl": connection.url,
                "headers": {"Authorization": f"Bearer ${connection.token_variable}"},
            }
        else:
            server = {"command": connection.command[0], "args": connection.command[1:]}
        return RuleText(".gemini/settings.json", formatted_json({"mcpServers": {connection.name: server}}))

    def is_calling(self, caller: ToolCaller) -> bool:
        """Whether Gemini CLI started the server; it does not say for which session."""
        return caller.environment.get("GEMINI_CLI") == "1"

    def record_kind(self, record: dict[str, Any]) -> list[str]:
        """The type of a record, or the kind of change if it changes the conversation."""
        for change in ("$set", "$rewindTo"):
            if change in record:
                value = record[change]
                return [change, *sorted(value)] if isinstance(value, dict) else [change]
        return super().record_kind(record) or ["header"]

    def retention(self, root: Path) -> timedelta | None:
        """Thirty days, unless the settings have `general.sessionRetention`."""
        settings = decode_any(read_whole(root / "settings.json") or b"")
        general = settings.get("general") if isinstance(settings, dict) else None
        given = general.get("sessionRetention") if isinstance(general, dict) else None
        if not isinstance(given, dict):
            return timedelta(days=30)
        if given.get("enabled") is False:
            return None
        age = _AGE.fullmatch(str(given.get("maxAge", "30d")))
        return timedelta(days=int(age[1]) * _DAYS[age[2]]) if age else timedelta(days=30)
