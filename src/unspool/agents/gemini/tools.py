"""Gemini CLI's tools: what a refused call would have done."""

from __future__ import annotations

from typing import Any

import msgspec

from ... import model as m
from ...actions import creation_diff, replacement_diff

AGENT_TOOLS = frozenset(("delegate_to_agent", "invoke_agent"))
_EDITS = frozenset(("replace", "write_file", "edit", "edit_file"))


def action_of(name: str, raw: msgspec.Raw, display: object) -> tuple[m.RejectionType, m.Action]:
    """The kind of a refused call, and the action: the diff the person was shown, or one rebuilt from the input."""
    action = m.Action(raw)
    try:
        given = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        given = None
    if not isinstance(given, dict):
        given = {}
    if name in _EDITS:
        action.path = _text(given.get("file_path")) or _text(given.get("path"))
        shown = display.get("fileDiff") if isinstance(display, dict) else None
        action.diff = shown if isinstance(shown, str) else _rebuilt(name, action.path or "?", given)
        return "edit", action
    if name == "run_shell_command":
        action.command = _text(given.get("command"))
        return "command", action
    if name == "ask_user":
        action.questions = [_question(item) for item in given.get("questions") or () if isinstance(item, dict)]
        return "option", action
    if name == "exit_plan_mode":
        action.plan = _text(given.get("plan")) or _text(given.get("plan_path"))
        return "plan", action
    action.path = _text(given.get("file_path")) or _text(given.get("path"))
    return "permission", action


def _rebuilt(name: str, path: str, given: dict[str, Any]) -> str:
    if name == "write_file":
        return creation_diff(path, _text(given.get("content")) or "")
    return replacement_diff(path, [(_text(given.get("old_string")) or "", _text(given.get("new_string")) or "")])


def _question(item: dict[str, Any]) -> m.Question:
    options = item.get("options")
    labels = [str(o.get("label", o)) if isinstance(o, dict) else str(o) for o in options or () if o is not None]
    return m.Question(_text(item.get("question")) or "", labels)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
