"""What Claude Code asks, in the words of all drivers; and what was decided, in its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...agents import AGENTS
from ...core import model as m
from ..protocol import AskedKind, Choice, Option, PermissionRequest, Verdict

if TYPE_CHECKING:
    from claude_agent_sdk import PermissionUpdate, ToolPermissionContext

QUESTION_TOOL = "AskUserQuestion"
PLAN_TOOL = "ExitPlanMode"
REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)
"""What the program itself says for a refusal without a reason: the model knows it, and so do readers of the log."""
LONGEST_TITLE = 200


def asked_about(
    id: str, tool: str, given: dict[str, Any], context: ToolPermissionContext, *, can_last: bool
) -> PermissionRequest:
    """A call that needs an answer; `can_last`: it can be allowed for all of the session."""
    action = AGENTS["claude"].describe(tool, msgspec.Raw(msgspec.json.encode(given)))
    kind = _kind(tool, action)
    return PermissionRequest(
        id=id,
        kind=kind,
        tool=tool,
        title=_title(tool, kind, action, context),
        action=action,
        call_id=context.tool_use_id,
        reason=context.decision_reason,
        subagent=context.agent_id,
        choices=_choices(given) if kind == "question" else [],
        verdicts=_verdicts(kind, can_last),
        takes_reason=True,
        takes_input=kind in ("command", "edit", "tool"),
    )


def _kind(tool: str, action: m.Action) -> AskedKind:
    if tool == QUESTION_TOOL:
        return "question"
    if tool == PLAN_TOOL:
        return "plan"
    if action.command is not None:
        return "command"
    return "edit" if action.diff is not None else "tool"


def _title(tool: str, kind: AskedKind, action: m.Action, context: ToolPermissionContext) -> str:
    if kind == "question":
        title = action.questions[0].question if action.questions else "It asks a question"
    elif kind == "plan":
        title = "Its plan is ready"
    else:
        title = action.command or action.path or context.title or context.description or ""
        title = f"{tool}: {title}" if title else tool
    line = " ".join(title.split())
    return line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - 1] + "…"


def _verdicts(kind: AskedKind, can_last: bool) -> tuple[Verdict, ...]:
    if kind not in ("question", "plan") and can_last:
        return ("allow", "allow_session", "deny", "deny_stop")
    return ("allow", "deny", "deny_stop")


def _choices(given: dict[str, Any]) -> list[Choice]:
    found = []
    questions = given.get("questions")
    for question in questions if isinstance(questions, list) else []:
        if isinstance(question, dict):
            options = [
                Option(str(option.get("label", "")), str(option.get("description", "")))
                for option in question.get("options") or []
                if isinstance(option, dict)
            ]
            text, header = str(question.get("question", "")), str(question.get("header", ""))
            found.append(
                Choice(question=text, header=header, options=options, multiple=question.get("multiSelect") is True)
            )
    return found


def with_answers(tool: str, given: dict[str, Any], answers: dict[str, list[str]]) -> dict[str, Any]:
    """The input that is allowed; a question carries its answers in it."""
    if tool != QUESTION_TOOL:
        return given
    return {**given, "answers": {question: ", ".join(chosen) for question, chosen in answers.items()}}


def for_the_session(suggestions: list[PermissionUpdate], folder: str) -> list[PermissionUpdate]:
    """Of what the program suggests: that which allows such calls until it ends, and is written to no settings.

    Rules come first, with the folders outside the project that they need. Only where there are none is it the mode
    that lets all edits through.
    """
    rules = [each for each in suggestions if each.type == "addRules" and each.behavior == "allow"]
    if not rules:
        modes = [each for each in suggestions if each.type == "setMode" and each.mode == "acceptEdits"]
        return [replace(each, destination="session") for each in modes]
    outside = [each for each in suggestions if each.type == "addDirectories" and not _is_inside(each, folder)]
    return [replace(each, destination="session") for each in rules + outside]


def _is_inside(update: PermissionUpdate, folder: str) -> bool:
    return all(Path(each).resolve().is_relative_to(Path(folder).resolve()) for each in update.directories or [])
