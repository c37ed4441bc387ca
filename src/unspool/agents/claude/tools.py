"""Claude Code's tools: what a call does, or would have done had it not been refused."""

from __future__ import annotations

from typing import Any

import msgspec

from ...core import model as m
from ...core.proposed_actions import PathsIn, creation_diff, input_of, questions_in, replacement_diff, text_in

SUBAGENT_TOOLS = frozenset(("Task", "Agent"))
PLAN_TOOL = "ExitPlanMode"
ASKING_TOOLS = frozenset((PLAN_TOOL, "AskUserQuestion"))
"""Tools that do nothing but ask, so that they can be refused but not interrupted."""
_EDITS = frozenset(("Edit", "MultiEdit", "Write", "NotebookEdit", "Update"))
_SHELLS = frozenset(("Bash", "PowerShell"))


def action_of(name: str, raw: msgspec.Raw) -> tuple[m.RejectionType, m.Action]:
    """The kind of a call, and the action rebuilt from its input."""
    action = m.Action(raw)
    given = input_of(raw)
    if name in _EDITS:
        action.path = text_in(given, "file_path", "notebook_path")
        action.diff = _rebuilt(name, action.path or "?", given)
        return "edit", action
    if name in _SHELLS:
        action.command = text_in(given, "command")
        return "command", action
    if name == PLAN_TOOL:
        action.plan = text_in(given, "plan")
        return "plan", action
    if name == "AskUserQuestion":
        action.questions = questions_in(given)
        return "option", action
    action.path = text_in(given, "file_path", "path")
    return ("permission" if given else "other"), action


def _rebuilt(name: str, path: str, given: dict[str, Any]) -> str:
    if name == "Write":
        return creation_diff(path, text_in(given, "content") or "")
    if name == "NotebookEdit":
        return replacement_diff(path, [("", text_in(given, "new_source") or "")])
    several = given.get("edits")
    edits = [edit for edit in several if isinstance(edit, dict)] if isinstance(several, list) else [given]
    pairs = [(text_in(edit, "old_string") or "", text_in(edit, "new_string") or "") for edit in edits]
    return replacement_diff(path, pairs)


paths_in = PathsIn("file_path", "notebook_path", "path")
