"""The rules that "allow for the session" sets in Claude Code, and their description."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from claude_agent_sdk import PermissionUpdate

_UNTIL = "Until Claude Code exits, it no longer asks about"


def rules_for_session(suggestions: list[PermissionUpdate], folder: str) -> list[PermissionUpdate]:
    """Return the suggested rules, limited to the session: they last until the program exits and are not saved.

    They include the directories outside the project that the rules need. If no rules are suggested, the suggested mode
    that allows all edits is returned instead.
    """
    rules = [each for each in suggestions if each.type == "addRules" and each.behavior == "allow"]
    if not rules:
        modes = [each for each in suggestions if each.type == "setMode" and each.mode == "acceptEdits"]
        return [replace(each, destination="session") for each in modes]
    outside = [each for each in suggestions if each.type == "addDirectories" and not _is_inside(each, folder)]
    return [replace(each, destination="session") for each in rules + outside]


def _is_inside(update: PermissionUpdate, folder: str) -> bool:
    # Not `Path.resolve`, which raises an error for symbolic links in a circle, and the request would be lost.
    project = os.path.realpath(folder)
    return all(Path(os.path.realpath(each)).is_relative_to(project) for each in update.directories or [])


def mode_update(mode: Literal["default", "acceptEdits"]) -> PermissionUpdate:
    """Return a change to another mode until the program exits."""
    from claude_agent_sdk import PermissionUpdate

    return PermissionUpdate(type="setMode", mode=mode, destination="session")


def rule_text(updates: list[PermissionUpdate]) -> str | None:
    """Describe what these rules allow; None if there are none."""
    return " ".join(sentence for update in updates for sentence in _sentences(update)) or None


def _sentences(update: PermissionUpdate) -> Iterator[str]:
    for rule in update.rules or []:
        yield f"{_UNTIL} {_scope(rule.tool_name, rule.rule_content)}."
    for folder in update.directories or []:
        yield f"It may also work in the folder {folder}."
    if update.mode == "acceptEdits":
        yield (
            f"{_UNTIL} changes of any file in its working folders, nor about common file commands there, such as "
            "mkdir, mv, cp and rm (mode acceptEdits)."
        )


def _scope(tool: str, content: str | None) -> str:
    """Describe what a rule covers, followed by the rule as the program writes it."""
    if content is None:
        return f"any use of the tool {tool} (rule {tool})"
    rule = f"rule {tool}({content})"
    prefix = next((content.removesuffix(end) for end in (":*", " *") if content.endswith(end)), None)
    if prefix is not None:
        return f"any {tool} command that starts with {prefix!r} ({rule})"
    if "*" in content:
        return f"{tool} for anything that matches {content} ({rule})"
    return f"{tool} for exactly {content!r} ({rule})"
