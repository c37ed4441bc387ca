"""Codex CLI."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...core import model as m
from ...core.decision_rules import RuleText
from .._repair import RepairStrategy
from ..base import Agent, AgentInfo, Colour, McpConnection, SessionRef, SessionSource, ToolCaller, strings_at
from .rules import RULES

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
    from .reader import CodexSource

    return CodexSource(root)


def _repair() -> RepairStrategy:
    from .repair import CodexRepair

    return CodexRepair()


class Codex(Agent):
    """Codex CLI by OpenAI."""

    info = AgentInfo(
        name="codex",
        title="Codex CLI",
        provider="openai",
        letter="X",
        colour=Colour("#0d6b52", "#5cc7a5"),
        folder=".codex",
        variable="CODEX_HOME",
        paths=("sessions", "archived_sessions", "history.jsonl", "session_index.jsonl"),
        suffixes=(".jsonl", ".jsonl.zst", ".json"),
        resume=("codex", "resume", "{id}"),
        install="pip install 'unspool[codex]'",
        source=_source,
        repair=_repair,
        driver="unspool.runs.drivers.codex:CodexDriverFactory",
    )
    rules = RULES

    def recognises(self, path: Path, head: bytes) -> bool:
        """Recognise a rollout by its name, or by its first line."""
        from .discovery import rollout_file

        return rollout_file(path) is not None or b'"session_meta"' in head

    def root_of(self, path: Path) -> Path:
        """The folder that contains `sessions`."""
        for parent in path.parents:
            if parent.name in ("sessions", "archived_sessions"):
                return parent.parent
        return path.parent

    def has_layout(self, folder: Path) -> bool:
        """Whether a folder contains archived sessions, or sessions by date."""
        if os.path.isdir(os.path.join(folder, "archived_sessions")):
            return True
        # This runs for every home, and almost none has such a folder: a glob takes much longer than `isdir`.
        return os.path.isdir(os.path.join(folder, "sessions")) and any((folder / "sessions").glob("[0-9]*"))

    def describe(self, name: str, raw_input: msgspec.Raw) -> m.Action:
        """What a call of one of its tools does."""
        from .tools import action_of

        return action_of(name, raw_input)[1]

    def subject(self, name: str, raw_input: msgspec.Raw) -> tuple[str | None, str | None]:
        """The command and the path of a call, if any."""
        return _subject_of()(name, raw_input)

    def answers(self, action: m.Action, result: m.ToolResult) -> dict[str, str]:
        """A person's answers by question; the result has them by the id of the question."""
        from ...core.proposed_actions import json_answers
        from .tools import question_ids

        return json_answers(action.questions, question_ids(action), result.content)

    def touched(self, name: str, raw_input: msgspec.Raw) -> list[str]:  # noqa: ARG002 - all tools name files alike
        """The files that a call concerns."""
        return _paths_in()(raw_input)

    def shared_with(self, ref: SessionRef) -> Iterator[str | None]:
        """The threads whose lines it copied, the rollout that it continues, and its own rollouts."""
        from .discovery import read_head, rollout_file

        head = read_head(ref.path)
        yield from (head.forked_from, head.copied_from)
        yield head.history_base.thread_id if head.history_base is not None else None
        for path in (ref.path, *ref.more):
            file = rollout_file(path)
            yield file.rollout if file is not None else None

    def shapes_lists(self, path: Path) -> bool:
        """Whether a file is not the prompt history; the index, for example, has the names of threads."""
        return path.name != "history.jsonl"

    def allow_command(self, prefix: tuple[str, ...]) -> RuleText | None:
        """A rule for its execution policy."""
        pattern = ", ".join(f'"{word}"' for word in prefix)
        return RuleText("~/.codex/rules/default.rules", f'prefix_rule(pattern=[{pattern}], decision="allow")')

    def mcp_settings(self, connection: McpConnection) -> RuleText | None:
        """An entry for its configuration, which all projects share; the server is started in the current one."""
        lines = [f"[mcp_servers.{connection.name}]"]
        if connection.url:
            lines.append(f'url = "{connection.url}"')
            lines.append(f'bearer_token_env_var = "{connection.token_variable}"')
        else:
            lines.append(f"command = {_toml(connection.command[0])}")
            lines.append(f"args = {_toml(connection.command[1:])}")
        return RuleText("~/.codex/config.toml", "\n".join(lines))

    def calling_session(self, caller: ToolCaller) -> str | None:
        """The id of the thread, which Codex sends with every call."""
        thread = caller.meta.get("threadId")
        return thread if isinstance(thread, str) and "x-codex-turn-metadata" in caller.meta else None

    def record_kind(self, record: dict[str, Any]) -> list[str]:
        """The type of a record, of its payload, and of the item in it."""
        return strings_at(record, ("type",), ("payload", "type"), ("payload", "item", "type"))


def _toml(value: str | tuple[str, ...]) -> str:
    """Return texts as TOML, which has the strings of JSON, but no escaped surrogates and no plain DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
