"""Classifies how a tool call of Gemini CLI ended, by its status and the text of its result."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...core import model as m
from .._numbers import number_in
from .tools import AGENT_TOOLS

_DENIED = re.compile(r"User denied execution|was cancell?ed by the user")
_SIBLING = re.compile(r"User cancelled operation")
_EITHER = re.compile(r"User cancelled the operation")
_STOPPED = re.compile(r"cancelled by user|User cancelled tool execution|Operation cancelled", re.IGNORECASE)
_BY_POLICY = re.compile(r"denied by policy|Command rejected because|blocked by policy")
_BAD_CALL = re.compile(
    r"must have required property|^Tool \"[^\"]*\" not found|must be equal to|Invalid parameters|params must"
)
_EXIT_LABEL = "Exit Code: "
_EXIT = re.compile(rf"^{_EXIT_LABEL}(-?\d+)", re.MULTILINE)


class GeminiVerdict(NamedTuple):
    """How a call ended."""

    outcome: m.Outcome
    by: m.RejectedBy | None = None
    exit_code: int | None = None
    is_doubtful: bool = False
    """0.22 writes the same text for a rejected and for an interrupted call."""
    is_sibling: bool = False
    """Cancelled together with another call; nobody was asked about it."""


def judge(status: str | None, text: str, name: str) -> GeminiVerdict:
    """Classify a call by its status and its result."""
    if text == m.MADE_UP_RESULT:
        return GeminiVerdict("unknown")
    if status == "cancelled":
        return _cancelled(text, name)
    if status == "error":
        return _failed(text)
    if status is None and _DENIED.search(text[:300]):
        return GeminiVerdict("rejected", "user")
    if text.startswith("Command was cancelled by user") or "\nCommand was cancelled by user" in text[:400]:
        return GeminiVerdict("interrupted")
    code = _exit_code(text) if name == "run_shell_command" else None
    return GeminiVerdict("error" if code else "ok", exit_code=code)


def _cancelled(text: str, name: str) -> GeminiVerdict:
    if _DENIED.search(text):
        return GeminiVerdict("rejected", "user")
    if _SIBLING.search(text):
        return GeminiVerdict("rejected", "user", is_sibling=True)
    if _EITHER.search(text):
        # Sub-agents need no approval, so a cancelled one was interrupted.
        return (
            GeminiVerdict("interrupted") if name in AGENT_TOOLS else GeminiVerdict("rejected", "user", is_doubtful=True)
        )
    return GeminiVerdict("interrupted")


def _failed(text: str) -> GeminiVerdict:
    if _BY_POLICY.search(text):
        return GeminiVerdict("rejected", "rule")
    if _BAD_CALL.search(text):
        return GeminiVerdict("tool_use_error")
    return GeminiVerdict("error", exit_code=_exit_code(text))


def _exit_code(text: str) -> int | None:
    # Outputs are long, and the code is near their end: `find` is many times faster than `_EXIT.search`.
    position = text.find(_EXIT_LABEL)
    while position >= 0:
        found = _EXIT.match(text, position)
        if found and (code := number_in(found[1])) is not None:
            return code
        position = text.find(_EXIT_LABEL, position + 1)
    return None
