"""Classifies how a tool call of Claude Code ended, by the text of its result.

The texts are the agent's own, seen in the versions named. Since about 2.1.200, a rejection without a reason and the
interruption of a running tool have the same text; only the record that follows shows which it was, so such a verdict
stays open until then.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...core import model as m
from .._numbers import number_in
from .schema import ClaudeRecord, ResultDetails, ToolUseResult

MARKER = "[Request interrupted by user]"
TOOL_MARKER = "[Request interrupted by user for tool use]"

_REFUSED = "The user doesn't want to proceed with this tool use."
_REFUSED_IN_SUBAGENT = "Permission for this tool use was denied. The tool use was rejected"
_SIBLING = "The user doesn't want to take this action right now."
_REASON = re.compile(r"(?:the|The) user said:\n(.*)", re.DOTALL)
_FIXED_REASON = "The user wants to clarify these questions."
_ABORTED = ("MCP error -32001: AbortError", "canceled")
"""Errors of tools that were stopped (2.1.63); other programs may use the same words."""
_LOST = "[Tool call interrupted: the session ended"
_STOPPED = ("Interrupted by user", "Tool permission request failed: AbortError", TOOL_MARKER, MARKER)
_EXIT = re.compile(r"(?:Error: )?Exit code (\d+)")
_SIGNAL_EXITS = frozenset((130, 137, 143, 145))
STOPPING_EXITS = frozenset((130, 137))
"""Ctrl+C, and the signal with which the agent stops a command. A command may also exit with these codes by itself."""
# Outputs are long, so none of these searches the rest of a line again from each repetition of its first words.
_DENIED_BY_RULE = re.compile(
    r"Permission to (?:use|read|edit) (?:(?!Permission to ).)+ has been denied"
    r"|(?:is|are) denied by your permission settings"
)
_NOBODY_TO_ASK = re.compile(
    r"requires approval|needs approval|requested permissions? to (?:(?!requested ).)+ but you haven't granted it"
)
_HOOK = re.compile(r"PreToolUse:(?:(?!PreToolUse:).)* hook blocking|hook (?:error|returned blocking)")


class ClaudeVerdict(NamedTuple):
    """How a call ended, and if it was rejected, by whom and why."""

    outcome: m.Outcome
    evidence: str = ""
    by: m.RejectedBy | None = None
    reason: str | None = None
    exit_code: int | None = None
    is_open: bool = False
    """The next record decides between a rejection and an interruption."""
    is_sibling: bool = False
    """Cancelled together with a parallel call; nobody was asked about it."""
    is_clarifying: bool = False
    """The user wanted to talk about a question before answering it."""


OK = ClaudeVerdict("ok")
FLAG = "interrupted flag"
"""Evidence that is also recorded for a command that timed out."""


def judge(text: str, is_error: bool, details: ResultDetails, record: ClaudeRecord) -> ClaudeVerdict:
    """Classify a tool result. Every error text falls in exactly one class."""
    if not is_error:
        is_stopped = type(details) is ToolUseResult and details.interrupted is True
        return ClaudeVerdict("interrupted", FLAG) if is_stopped else OK
    return _rejected_by_person(text, record) or _stopped(text) or _rejected_by_other(text, record) or _failed(text)


def _rejected_by_person(text: str, record: ClaudeRecord) -> ClaudeVerdict | None:
    if text.startswith((_REFUSED, _REFUSED_IN_SUBAGENT)):
        said = _REASON.search(text)
        reason = record.user_feedback or (said[1].strip() if said else None)
        if is_clarifying := reason is not None and reason.startswith(_FIXED_REASON):
            reason = None
        if record.agent_id is not None and record.tool_denial_kind and text.startswith(_REFUSED) and not said:
            # Since sub-agents have their own rejection text, this one means that they were stopped (2.1.200).
            return ClaudeVerdict("interrupted", "result text")
        nobody_asked = record.permission_decision is not None and record.permission_decision.source == "config"
        if nobody_asked:
            return ClaudeVerdict("rejected", "permission decision", "mode", reason)
        final = bool(said) or text.startswith(_REFUSED_IN_SUBAGENT)
        return ClaudeVerdict("rejected", "result text", "user", reason, is_open=not final, is_clarifying=is_clarifying)
    if text.startswith(_SIBLING):
        return ClaudeVerdict("rejected", "result text", "user", is_open=True, is_sibling=True)
    return None


def _stopped(text: str) -> ClaudeVerdict | None:
    if text.startswith((_LOST, m.MADE_UP_RESULT)):
        return ClaudeVerdict("unknown", "result written on resume")
    code = _EXIT.match(text)
    if text.startswith(_STOPPED):
        return ClaudeVerdict("interrupted", "result text")
    if text.startswith(_ABORTED[0]) or text == _ABORTED[1]:
        return ClaudeVerdict("error", "result text", is_open=True)
    exit_code = number_in(code[1]) if code else None
    if exit_code in _SIGNAL_EXITS:
        # From 2.1.150 on the text has no marker: the record that follows decides.
        is_marked = TOOL_MARKER in text
        return ClaudeVerdict(
            "interrupted" if is_marked else "error", "exit code", exit_code=exit_code, is_open=not is_marked
        )
    return None


def _rejected_by_other(text: str, record: ClaudeRecord) -> ClaudeVerdict | None:
    decision = record.permission_decision
    source = decision.source if decision is not None and decision.decision == "reject" else None
    kind = record.tool_denial_kind
    if _HOOK.search(text) or source == "hook":
        return ClaudeVerdict("rejected", "result text", "hook", _first_line(text))
    if "don't ask mode" in text:
        return ClaudeVerdict("rejected", "result text", "mode")
    if _DENIED_BY_RULE.search(text):
        return ClaudeVerdict("rejected", "result text", "rule")
    if kind == "permission-rule":
        # Rules have fixed texts, so any other text is from the program that runs the agent.
        return ClaudeVerdict(
            "rejected", "permission decision" if source == "user_reject" else "denial kind", "host", text
        )
    if (kind == "user-rejected" and source == "config") or _NOBODY_TO_ASK.search(text):
        return ClaudeVerdict("rejected", "result text", "mode")
    return None


def _failed(text: str) -> ClaudeVerdict:
    if text.startswith(("<tool_use_error>", "InputValidationError")):
        return ClaudeVerdict("tool_use_error", "result text")
    code = _EXIT.match(text)
    return ClaudeVerdict("error", "result text", exit_code=number_in(code[1]) if code else None)


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0]
