"""Classifies how a tool call of Codex CLI ended, by the text of its result.

From 0.118 on, an interrupted call and a call that was rejected in the terminal have the same text; `tool_calls` tells
them apart by other records.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import msgspec

from ...core import model as m

_HEAD = 600
"""How many characters can hold the text of the agent; after them comes the output of the tool."""

Kind = Literal["ok", "error", "tool_use_error", "rejected", "aborted", "unknown"]

_ABORTED = re.compile(r"(?:Wall time: [\d.]+ seconds\n)?aborted by user|aborted$|Script terminated\b")
_BY_USER = re.compile(
    r"(?:exec command|patch|command) rejected by user|Rejected\(\\*\"rejected by user\\*\"\)"
    r"|(?:^|Output:\n)\W*user (?:cancelled|rejected) MCP tool call"
)
_BY_RULE = re.compile(
    r"rejected by configuration|rejected by user approval settings|rejected by policy"
    # The automatic reviewer, a model that answers instead of a person:
    r"|automatic approval review denied|action was rejected due to unacceptable risk"
)
_BAD_CALL = re.compile(
    r"unsupported (?:custom tool )?call|failed to parse function arguments|unknown tool|no such tool", re.IGNORECASE
)
_EXIT_WORDS = ("Process exited with code ", "Exit code")
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


class _Wrapped(msgspec.Struct):
    output: str | None = None
    metadata: dict[str, object] | None = None


_wrapped = msgspec.json.Decoder(_Wrapped)


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
        code = int(ended[1])
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
    """Search for the exit code from the first place where it can be: `find` is many times faster than an expression."""
    places = [place for word in _EXIT_WORDS if (place := head.find(word)) >= 0]
    return _EXIT.search(head, min(places)) if places else None


def _unwrap(text: str) -> tuple[str, int | None]:
    """Up to 0.4x, the output of a command is an object in a string."""
    if not text.startswith('{"output"'):
        return text, None
    try:
        wrapped = _wrapped.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return text, None
    code = (wrapped.metadata or {}).get("exit_code")
    return wrapped.output or "", code if isinstance(code, int) else None
