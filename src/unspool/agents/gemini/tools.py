"""Gemini CLI's tools: what a call does, or would have done if it had not been rejected."""

from __future__ import annotations

from typing import Any

import msgspec

from ...core import model as m
from ...core.notebook_cells import NotebookCell, cells_in, is_notebook
from ...core.proposed_actions import (
    PathsIn,
    creation_diff,
    first_text,
    input_of,
    questions_in,
    replacement_diff,
    subject_in,
    tasks_in,
    text_in,
)

AGENT_TOOLS = frozenset(("delegate_to_agent", "invoke_agent", "codebase_investigator"))
MARKDOWN_TOOLS = AGENT_TOOLS | {"web_fetch", "google_web_search"}
"""Tools whose results are Markdown."""
_ASKING = frozenset(("ask_user", "exit_plan_mode"))
_EDITS = frozenset(("replace", "write_file", "edit", "edit_file"))


def action_of(name: str, raw: msgspec.Raw, display: object) -> tuple[m.RejectionType, m.Action]:
    """The kind of a call if it is rejected, and its action: the diff that was shown, or one built from the input."""
    action = m.Action(raw)
    given = input_of(raw)
    if name in _EDITS:
        action.path = text_in(given, "file_path", "path")
        shown = text_in(display, "fileDiff") if isinstance(display, dict) else None
        action.diff = shown if shown is not None else _rebuilt(name, action.path or "?", given)
        return "edit", action
    if name == "run_shell_command":
        action.command = text_in(given, "command")
        return "command", action
    if name == "ask_user":
        action.questions = questions_in(given)
        return "option", action
    if name == "exit_plan_mode":
        action.plan = text_in(given, "plan", "plan_path")
        return "plan", action
    if name == "write_todos":
        action.tasks = tasks_in(given, "description")
    action.path = text_in(given, "file_path", "path")
    return "permission", action


def subject_of(name: str, raw: msgspec.Raw) -> tuple[str | None, str | None]:
    """The command and the path of an action, without building the rest of it."""
    given = subject_in(raw)
    if given is None:
        action = action_of(name, raw, None)[1]
        return action.command, action.path
    if name == "run_shell_command":
        return first_text(given.command), None
    return None, None if name in _ASKING else first_text(given.file_path, given.path)


def _rebuilt(name: str, path: str, given: dict[str, Any]) -> str:
    if name == "write_file":
        return creation_diff(path, text_in(given, "content") or "")
    return replacement_diff(path, [(text_in(given, "old_string") or "", text_in(given, "new_string") or "")])


def cells_written(name: str, raw: msgspec.Raw) -> list[NotebookCell]:
    """The cells of a notebook that is written as a file."""
    given = input_of(raw) if name == "write_file" else {}
    return cells_in(text_in(given, "content") or "") if is_notebook(text_in(given, "file_path", "path")) else []


paths_in = PathsIn("file_path", "path", "absolute_path", "dir_path")
