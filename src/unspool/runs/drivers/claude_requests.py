"""Translates requests of Claude Code into the form that all drivers share, and answers back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from ...agents import AGENTS
from ...agents.claude.tools import edits_of
from ...core import model as m
from ..protocol import Answer, Choice, Emit, Option, PermissionRequest, RequestKind
from .claude_rules import mode_update, rule_text, rules_for_session
from .pending_requests import PendingRequests
from .request_details import ALL_VERDICTS, WITHOUT_SESSION, details_of

if TYPE_CHECKING:
    from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny, PermissionUpdate, ToolPermissionContext

QUESTION_TOOL = "AskUserQuestion"
PLAN_TOOL = "ExitPlanMode"
REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)
"""The program's own text for a denial without a reason, which the model and readers of the log recognise."""
REJECTED_BECAUSE = (
    REJECTED.partition("STOP what you are doing")[0] + "To tell you how to proceed, the user said:\n{reason}"
)
"""The text for a denial with a reason. The model would take the bare reason for the output of the tool."""
MAX_TITLE = 200
_SHOWN_FIELDS = {
    "Bash": {"command"},
    "PowerShell": {"command"},
    "Write": {"content"},
    "Edit": {"old_string", "new_string"},
    "Update": {"old_string", "new_string"},
    "MultiEdit": {"edits[].old_string", "edits[].new_string"},
    "NotebookEdit": {"new_source"},
    PLAN_TOOL: {"plan"},
    QUESTION_TOOL: {
        "questions[].question", "questions[].header", "questions[].multiSelect?", "questions[].options[].label",
        "questions[].options[].description",
    },
}  # fmt: skip
"""The input fields that a command, a change, a plan or a question shows; all other fields are listed as details."""


class ClaudePermissions:
    """Passes Claude Code's permission requests to a person, and the answers back."""

    def __init__(self, emit: Emit) -> None:
        self.folder = ""
        self._pending = PendingRequests[asyncio.Future[Answer]]("ask", emit)

    def answer(self, id: str, answer: Answer) -> None:
        """Answer a request, if it is still pending."""
        pending = self._pending.take(id)
        if pending is not None and not pending.done():
            pending.set_result(answer)

    async def decide(
        self, tool: str, input: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Wait for the answer to a request. The SDK calls this, and cancels it when the turn is interrupted."""
        from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny

        if tool == PLAN_TOOL:
            session_rules = [mode_update("acceptEdits")]
        else:
            session_rules = rules_for_session(context.suggestions, self.folder)
        request = build_request(self._pending.new_id(), tool, input, context, session_rules)
        pending: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending.add(request.id, pending)
        self._pending.show(request)
        try:
            answer = await pending
        finally:
            self._pending.cancel(request.id)
        if answer.verdict in ("deny", "deny_stop"):
            return PermissionResultDeny(message=refusal(answer.reason), interrupt=answer.verdict == "deny_stop")
        allowed = input_with_answers(tool, input if answer.input is None else answer.input, answer)
        is_for_session = answer.verdict == "allow_session"
        updates = session_rules if is_for_session else [mode_update("default")] if tool == PLAN_TOOL else []
        return PermissionResultAllow(updated_input=allowed, updated_permissions=updates or None)


def refusal(reason: str | None) -> str:
    """Return the text of a denial in the program's own wording."""
    return REJECTED_BECAUSE.format(reason=reason) if reason else REJECTED


def build_request(
    id: str, tool: str, input: dict[str, Any], context: ToolPermissionContext, session_rules: list[PermissionUpdate]
) -> PermissionRequest:
    """Build the request for a tool call."""
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
        verdicts=ALL_VERDICTS if session_rules and kind != "question" else WITHOUT_SESSION,
        takes_reason=True,
        takes_input=kind in ("command", "edit", "tool"),
        details=details_of(input, _SHOWN_FIELDS.get(tool, set()))
        + details_of({"blocked_path": context.blocked_path} if context.blocked_path else {}),
        edits=edits_of(tool, action.raw_input),
        session_rule=rule_text(session_rules) if kind != "question" else None,
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


def input_with_answers(tool: str, input: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """Return the input that is allowed; for a question, it contains the answers."""
    if tool != QUESTION_TOOL:
        return input
    given: dict[str, Any] = {"answers": {question: ", ".join(chosen) for question, chosen in answer.answers.items()}}
    if answer.notes:
        given["annotations"] = {question: {"notes": note} for question, note in answer.notes.items()}
    return {**input, **given}
