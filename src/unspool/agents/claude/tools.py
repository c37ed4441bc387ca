"""Claude Code's tools: what a call does, or would have done had it not been refused."""

from __future__ import annotations

from typing import Any

import msgspec

from ...core import model as m
from ...core.proposed_actions import (
    CellEdit,
    CellMode,
    PathsIn,
    ProposedEdit,
    Replacement,
    creation_diff,
    input_of,
    questions_in,
    replacement_diff,
    text_in,
)

SUBAGENT_TOOLS = frozenset(("Task", "Agent"))
PLAN_TOOL = "ExitPlanMode"
ASKING_TOOLS = frozenset((PLAN_TOOL, "AskUserQuestion"))
"""Tools that do nothing but ask, so that they can be refused but not interrupted."""
_EDITS = frozenset(("Edit", "MultiEdit", "Write", "NotebookEdit", "Update"))
_CELL_MODES: dict[str, CellMode] = {"insert": "insert", "delete": "delete"}
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
    pairs = [(text_in(edit, "old_string") or "", text_in(edit, "new_string") or "") for edit in _edits_in(name, given)]
    return replacement_diff(path, pairs)


def _edits_in(name: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    several = given.get("edits") if name == "MultiEdit" or "old_string" not in given else None
    return [edit for edit in several if isinstance(edit, dict)] if isinstance(several, list) else [given]


def edits_of(name: str, raw: msgspec.Raw) -> list[ProposedEdit]:
    """What a call would do to a file."""
    given = input_of(raw)
    path = text_in(given, "file_path", "notebook_path")
    if name not in _EDITS or path is None:
        return []
    if name == "Write":
        return [ProposedEdit(path=path, content=text_in(given, "content") or "")]
    if name == "NotebookEdit":
        cell = CellEdit(
            text_in(given, "cell_id"),
            _CELL_MODES.get(str(given.get("edit_mode")), "replace"),
            text_in(given, "new_source") or "",
        )
        return [ProposedEdit(path=path, cell=cell)]
    replacements = tuple(
        Replacement(
            text_in(edit, "old_string") or "", text_in(edit, "new_string") or "", edit.get("replace_all") is True
        )
        for edit in _edits_in(name, given)
    )
    return [ProposedEdit(path=path, replacements=replacements)]


paths_in = PathsIn("file_path", "notebook_path", "path")
