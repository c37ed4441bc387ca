"""Classifies how a tool call of Codex CLI ended, by the text of its result.

From 0.118 on, an interrupted call and a call that was rejected in the terminal have the same text; `tool_calls` tells
them apart by other records.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ...core import model as m
from ...io.decode import decode_any
from .._numbers import number_in

_HEAD = 600
"""Number of characters that may contain the agent's own text; the output of the tool follows."""

Kind = Literal["ok", "error", "tool_use_error", "rejected", "aborted", "unknown"]

_ABORTED = re.compile(r"(?:Wall time: [\d.]+ seconds\n)?aborted by user|aborted$|Script terminated\b")
_BY_USER = re.compile(
    r"(?:exec command|patch|command) rejected by user|Rejected\(\\*\"rejected by user\\*\"\)"
    r"|(?:^|Output:\n)\W*user (?:cancelled|rejected) MCP tool call"
)
_BY_RULE = re.compile(
    r"rejected by configuration|rejected by user approval settings|rejected by policy"
    # The automatic reviewer, a model that decides instead of a person:
    r"|automatic approval review denied|action was rejected due to unacceptable risk"
)
_BAD_CALL = re.compile(
    r"unsupported (?:custom tool )?call|failed to parse function arguments|unknown tool|no such tool", re.IGNORECASE
)
_EXIT_LABELS = ("Process exited with code ", "Exit code")
_EXIT = re.compile(r"(?:Process exited with code|Exit code:?) (-?\d+)")
_FAILED = re.compile(
    r"exec_command failed|Script (?:failed|error)|execution error|apply_patch verification failed|failed in sandbox"
    r"|timed out after|command timed out|^error:|^failed to ",
    re.IGNORECASE,
)


class CodexVerdict(NamedTuple):
    """How a call ended."""

    kind: Kind
    by: m.RejectedBy | None = None
    exit_code: int | None = None


def judge(text: str) -> CodexVerdict:
    """Classify the output of a call."""
    inner, code = _unwrap(text)
    head = inner[:_HEAD]
    if head == m.MADE_UP_RESULT:
        return CodexVerdict("unknown")
    ended = _find_exit(head)
    if "reject" in head or "cancelled MCP" in head or "review denied" in head:
        # The output of a command that ran may contain any of these words.
        before = head[: ended.start()] if ended else head
        if _BY_USER.search(before):
            return CodexVerdict("rejected", "user")
        if _BY_RULE.search(before):
            return CodexVerdict("rejected", "rule")
    if _ABORTED.match(head):
        return CodexVerdict("aborted")
    if code is None and ended:
        code = number_in(ended[1])
        if code is None:
            return CodexVerdict("error")
    if code:
        return CodexVerdict("error", exit_code=code)
    if code is None:
        if _BAD_CALL.match(head):
            return CodexVerdict("tool_use_error")
        lower = head.lower()
        if ("failed" in lower or "error" in lower or "timed out" in lower) and _FAILED.search(head):
            return CodexVerdict("error")
    return CodexVerdict("ok", exit_code=code)


def _find_exit(head: str) -> re.Match[str] | None:
    """Search for the exit code from the first label on: `find` is many times faster than a regular expression."""
    positions = [position for label in _EXIT_LABELS if (position := head.find(label)) >= 0]
    return _EXIT.search(head, min(positions)) if positions else None


def _unwrap(text: str) -> tuple[str, int | None]:
    """Return the output and its exit code: up to 0.4x, the output of a command is a JSON object in a string."""
    if not text.startswith('{"output"'):
        return text, None
    wrapped = decode_any(text)
    if not isinstance(wrapped, dict):
        return text, None
    output, metadata = wrapped["output"], wrapped.get("metadata")
    if not isinstance(output, str | None) or not isinstance(metadata, dict | None):
        return text, None
    code = (metadata or {}).get("exit_code")
    # A boolean is an integer for Python, but not for programs that read the record.
    return output or "", number_in(str(code)) if type(code) is int else None
