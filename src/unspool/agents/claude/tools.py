"""Claude Code's tools: what a refused call would have done."""

from __future__ import annotations

from typing import Any

import msgspec

from ... import model as m
from ...actions import creation_diff, replacement_diff

SUBAGENT_TOOLS = frozenset(("Task", "Agent"))
_EDITS = frozenset(("Edit", "MultiEdit", "Write", "NotebookEdit", "Update"))


def action_of(name: str, raw: msgspec.Raw) -> tuple[m.RejectionType, m.Action]:
    """The kind of a refused call, and the action rebuilt from its input."""
    action = m.Action(raw)
    try:
        given = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        given = None
    if not isinstance(given, dict):
        return ("edit" if name in _EDITS else "other"), action
    if name in _EDITS:
        _rebuild_edit(name, given, action)
        return "edit", action
    if name == "Bash" or (name == "PowerShell"):
        action.command = _text(given.get("command"))
        return "command", action
    if name == "ExitPlanMode":
        action.plan = _text(given.get("plan"))
        return "plan", action
    if name == "AskUserQuestion":
        action.questions = [_question(item) for item in _list(given.get("questions")) if isinstance(item, dict)]
        return "option", action
    action.path = _text(given.get("file_path") or given.get("path"))
    return "permission", action


def _rebuild_edit(name: str, given: dict[str, Any], action: m.Action) -> None:
    path = _text(given.get("file_path") or given.get("notebook_path")) or "?"
    action.path = path
    if name == "Write":
        action.diff = creation_diff(path, _text(given.get("content")) or "")
    elif name == "NotebookEdit":
        action.diff = replacement_diff(path, [("", _text(given.get("new_source")) or "")])
    else:
        edits = _list(given.get("edits")) or [given]
        pairs = [
            (_text(e.get("old_string")) or "", _text(e.get("new_string")) or "") for e in edits if isinstance(e, dict)
        ]
        action.diff = replacement_diff(path, pairs)


def _question(item: dict[str, Any]) -> m.Question:
    options = [
        _text(option.get("label")) or "" if isinstance(option, dict) else str(option)
        for option in _list(item.get("options"))
    ]
    return m.Question(_text(item.get("question")) or "", options)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
