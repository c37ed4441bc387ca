"""Requests of Claude Code, translated into the form that all drivers share, and answers translated back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...agents import AGENTS
from ...core import model as m
from ..protocol import Answer, Choice, Emit, Option, PermissionRequest, RequestKind, Verdict
from .pending_requests import PendingRequests

if TYPE_CHECKING:
    from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny, PermissionUpdate, ToolPermissionContext

QUESTION_TOOL = "AskUserQuestion"
PLAN_TOOL = "ExitPlanMode"
REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)
"""What the program itself says for a denial without a reason: the model and readers of the log know this sentence."""
MAX_TITLE = 200


class ClaudePermissions:
    """Answers Claude Code's permission requests with what a person decides."""

    def __init__(self, emit: Emit) -> None:
        self.folder = ""
        self._pending = PendingRequests[asyncio.Future[Answer]]("ask", emit)

    def answer(self, id: str, answer: Answer) -> None:
        """Answer a request, unless it is not pending any more."""
        pending = self._pending.take(id)
        if pending is not None and not pending.done():
            pending.set_result(answer)

    async def decide(
        self, tool: str, input: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Wait for the answer to a request; the SDK calls this and cancels it when the turn is interrupted."""
        from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny

        session_rules = rules_for_session(context.suggestions, self.folder)
        request = build_request(self._pending.new_id(), tool, input, context, can_allow_session=bool(session_rules))
        pending: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending.add(request.id, pending)
        self._pending.show(request)
        try:
            answer = await pending
        finally:
            self._pending.cancel(request.id)
        if answer.verdict in ("deny", "deny_stop"):
            return PermissionResultDeny(message=answer.reason or REJECTED, interrupt=answer.verdict == "deny_stop")
        allowed = input_with_answers(tool, input if answer.input is None else answer.input, answer.answers)
        updates = session_rules if answer.verdict == "allow_session" and session_rules else None
        return PermissionResultAllow(updated_input=allowed, updated_permissions=updates)


def build_request(
    id: str, tool: str, input: dict[str, Any], context: ToolPermissionContext, *, can_allow_session: bool
) -> PermissionRequest:
    """The request for a tool call."""
    action = AGENTS["claude"].describe(tool, msgspec.Raw(msgspec.json.encode(input)))
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
        choices=_choices(input) if kind == "question" else [],
        verdicts=_verdicts(kind, can_allow_session),
        takes_reason=True,
        takes_input=kind in ("command", "edit", "tool"),
    )


def _kind(tool: str, action: m.Action) -> RequestKind:
    if tool == QUESTION_TOOL:
        return "question"
    if tool == PLAN_TOOL:
        return "plan"
    if action.command is not None:
        return "command"
    return "edit" if action.diff is not None else "tool"


def _title(tool: str, kind: RequestKind, action: m.Action, context: ToolPermissionContext) -> str:
    if kind == "question":
        title = action.questions[0].question if action.questions else "Question"
    elif kind == "plan":
        title = "Plan ready for review"
    else:
        title = action.command or action.path or context.title or context.description or ""
        title = f"{tool}: {title}" if title else tool
    line = " ".join(title.split())
    return line if len(line) <= MAX_TITLE else line[: MAX_TITLE - 1] + "…"


def _verdicts(kind: RequestKind, can_allow_session: bool) -> tuple[Verdict, ...]:
    if kind not in ("question", "plan") and can_allow_session:
        return ("allow", "allow_session", "deny", "deny_stop")
    return ("allow", "deny", "deny_stop")


def _choices(input: dict[str, Any]) -> list[Choice]:
    questions = input.get("questions")
    return [
        _choice(question)
        for question in (questions if isinstance(questions, list) else [])
        if isinstance(question, dict)
    ]


def _choice(question: dict[str, Any]) -> Choice:
    return Choice(
        question=str(question.get("question", "")),
        header=str(question.get("header", "")),
        options=[
            Option(str(option.get("label", "")), str(option.get("description", "")))
            for option in question.get("options") or []
            if isinstance(option, dict)
        ],
        multiple=question.get("multiSelect") is True,
    )


def input_with_answers(tool: str, input: dict[str, Any], answers: dict[str, list[str]]) -> dict[str, Any]:
    """The input that is allowed; that of a question contains the answers."""
    if tool != QUESTION_TOOL:
        return input
    return {**input, "answers": {question: ", ".join(chosen) for question, chosen in answers.items()}}


def rules_for_session(suggestions: list[PermissionUpdate], folder: str) -> list[PermissionUpdate]:
    """Of the suggested rules, those that allow such calls until the program exits, without writing to any settings.

    They include the directories outside the project that the rules need. Only if there are no rules is the mode
    suggested that allows all edits.
    """
    rules = [each for each in suggestions if each.type == "addRules" and each.behavior == "allow"]
    if not rules:
        modes = [each for each in suggestions if each.type == "setMode" and each.mode == "acceptEdits"]
        return [replace(each, destination="session") for each in modes]
    outside = [each for each in suggestions if each.type == "addDirectories" and not _is_inside(each, folder)]
    return [replace(each, destination="session") for each in rules + outside]


def _is_inside(update: PermissionUpdate, folder: str) -> bool:
    return all(Path(each).resolve().is_relative_to(Path(folder).resolve()) for each in update.directories or [])
