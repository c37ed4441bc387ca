"""Reads facts from the raw files of the agents, independently of unspool, so that both do not have the same errors.

Facts are small: texts are classified when they are read, and not stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

Json = dict[str, Any]
Kind = Literal["call", "result", "prompt", "attachment", "usage", "plan"]

PLAN_TOOL = "ExitPlanMode"
PLAN_START = "Implement the following plan:"
_APPROVED = "User has approved"
_REFUSED = "The user doesn't want to proceed with this tool use"
_STAND_INS = ("[Tool result missing", "[no result was recorded for this call")
"""The beginnings of synthetic results, which an agent or unspool adds for a call without a result."""
_TEXT_FIELDS = frozenset(
    (
        "additionalContext", "addedBlocks", "addedLines", "condition", "content", "diff", "files", "newDate", "prompt",
        "snippet", "stderr", "stdout", "text",
    )
)  # fmt: skip
"""The fields of an attachment that contain text for the model. The others are names, numbers and paths."""
_REQUEST_ID = re.compile(rb'"id":"(msg_\w+)"')
_TAG = re.compile(r"\s*<([A-Za-z][\w-]*)(?:\s[^<>]*)?>")
_TYPED_TAGS = ("command-", "bash-input", "user-prompt")
"""Tags around text that a person typed."""


class Fact(NamedTuple):
    """A fact from one line of a file, or from one message of a document."""

    kind: Kind
    key: str
    """Identifies the message: its line, or its id in a document."""
    line: int
    id: str = ""
    """The id of the call or request."""
    text: str = ""
    """The class of its text: `json`, `tags`, `approved`, `refused`, `stand-in`, or empty."""
    name: str = ""
    """The tool of a call; `typed` for a prompt that the log marks as typed."""
    tokens: int = 0
    time: float = 0.0


def facts(agent: str, path: Path) -> Iterator[Fact]:
    """Yield all facts of a file, in order."""
    if agent == "gemini":
        return _gemini(path)
    read = _claude if agent == "claude" else _codex
    return (fact for line, record in records(path) for fact in read(line, record))


def records(path: Path) -> Iterator[tuple[int, Json]]:
    """Yield the records of a file with one record per line, with their line numbers.

    A damaged line yields only the ids of its requests, because a reader may have salvaged more of it.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            record = _decoded(line)
            if isinstance(record, dict):
                yield number, record
            elif found := _REQUEST_ID.findall(line):
                yield number, {"type": "damaged", "requests": [id.decode() for id in found]}


def _decoded(text: bytes | str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def prompt_class(text: str) -> str:
    """Return `json` or `tags` if a prompt consists of nothing else, which means that a program wrote it."""
    stripped = text.strip()
    if stripped[:1] in ("{", "[") and isinstance(_decoded(stripped), dict | list):
        return "json"
    return "tags" if _is_tagged(stripped) else ""


def _is_tagged(text: str) -> bool:
    rest = text
    while match := _TAG.match(rest):
        if match[1].startswith(_TYPED_TAGS):
            return False
        end = rest.find(f"</{match[1]}>", match.end())
        if end < 0:
            return False
        rest = rest[end + len(match[1]) + 3 :]
    return bool(text) and not rest.strip()


def has_text(value: Any, field: str = "") -> bool:
    """Return whether an attachment has text for the model, at any depth."""
    if isinstance(value, dict):
        return any(has_text(item, name if name in _TEXT_FIELDS else field) for name, item in value.items())
    if isinstance(value, list):
        return any(has_text(item, field) for item in value)
    return isinstance(value, str) and bool(field) and bool(value.strip())


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _blocks(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _text(content: Any) -> str:
    return "\n".join(str(block.get("text", "")) for block in _blocks(content))


def seconds(value: Any) -> float:
    """Return a time in seconds; 0.0 if it is invalid."""
    try:
        return datetime.fromisoformat(str(value).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


# --- Claude Code -----------------------------------------------------------------------------------------------------


def _claude(line: int, record: Json) -> Iterator[Fact]:
    kind, message, time = record.get("type"), _object(record.get("message")), seconds(record.get("timestamp"))
    key = str(line)
    if kind == "assistant":
        yield from _claude_reply(line, message, time)
    elif kind == "user":
        yield from _claude_user(line, record, message, time)
    elif kind == "attachment":
        attachment = _object(record.get("attachment"))
        if has_text({name: value for name, value in attachment.items() if name != "type"}):
            yield Fact("attachment", key, line)
        yield from _prompt(line, attachment.get("prompt"))
    elif kind == "queue-operation":
        yield from _prompt(line, record.get("content"))
    elif kind == "damaged":
        yield from (Fact("usage", key, line, id) for id in record["requests"])


def _claude_reply(line: int, message: Json, time: float) -> Iterator[Fact]:
    for block in _blocks(message.get("content")):
        if block.get("type") == "tool_use":
            yield Fact("call", str(line), line, str(block.get("id")), name=str(block.get("name")), time=time)
    usage = _object(message.get("usage"))
    if any(isinstance(value, int) and value for value in usage.values()) and message.get("id"):
        yield Fact("usage", str(line), line, str(message["id"]), tokens=int(usage.get("output_tokens") or 0))


def _claude_user(line: int, record: Json, message: Json, time: float) -> Iterator[Fact]:
    blocks = _blocks(message.get("content"))
    for block in blocks:
        if block.get("type") == "tool_result":
            text = _result_class(_text(block.get("content")), block.get("is_error") is True)
            yield Fact("result", str(line), line, str(block.get("tool_use_id")), text, time=time)
    text = _text([block for block in blocks if block.get("type") == "text"])
    if record.get("planContent") or text.startswith(PLAN_START):
        yield Fact("plan", str(line), line, str(record.get("sessionId")), time=time)
    # A prompt that was typed, or piped into the program, has the permission mode in which it was sent.
    yield from _prompt(line, text, is_typed="permissionMode" in record and "origin" not in record)


def _prompt(line: int, text: Any, *, is_typed: bool = False) -> Iterator[Fact]:
    found = prompt_class(text) if isinstance(text, str) else ""
    if found:
        yield Fact("prompt", str(line), line, text=found, name="typed" if is_typed and found == "json" else "")


def _result_class(text: str, is_error: bool) -> str:
    if text.startswith(_STAND_INS):
        return "stand-in"
    if text.startswith(_APPROVED) and not is_error:
        return "approved"
    return "refused" if text.startswith(_REFUSED) else ""


# --- Codex CLI -------------------------------------------------------------------------------------------------------


def _codex(line: int, record: Json) -> Iterator[Fact]:
    payload = _object(record.get("payload"))
    kind = str(payload.get("type", ""))
    if record.get("type") == "response_item":
        yield from _codex_item(line, kind, payload)
    elif kind == "token_count":
        info = _object(payload.get("info"))
        total, last = _object(info.get("total_token_usage")), _object(info.get("last_token_usage"))
        if last.get("output_tokens") or last.get("input_tokens"):
            # Repeated counts have the same totals, but copies have another time.
            id = "/".join(str(part.get(name)) for part in (total, last) for name in ("input_tokens", "output_tokens"))
            yield Fact("usage", str(line), line, id, tokens=int(last.get("output_tokens") or 0))


def _codex_item(line: int, kind: str, payload: Json) -> Iterator[Fact]:
    id = payload.get("call_id")
    if kind.endswith("_call") and isinstance(id, str):
        yield Fact("call", str(line), line, id, name=str(payload.get("name", kind)))
    elif kind.endswith("_output") and isinstance(id, str):
        output = payload.get("output")
        yield Fact("result", str(line), line, id, _result_class(output if isinstance(output, str) else "", False))
    elif kind == "message" and payload.get("role") == "user":
        yield from _prompt(line, _text(payload.get("content")))


# --- Gemini CLI ------------------------------------------------------------------------------------------------------

_UNFINISHED = ("executing", "scheduled", "validating", "awaiting_approval")


def _gemini(path: Path) -> Iterator[Fact]:
    for line, message in _gemini_messages(path):
        key = str(message.get("id"))
        for call in _blocks(message.get("toolCalls")):
            id = str(call.get("id"))
            yield Fact("call", key, line, id, name=str(call.get("name")))
            if call.get("result") or call.get("status") not in _UNFINISHED:
                yield Fact("result", key, line, id)
        tokens = _object(message.get("tokens"))
        if any(isinstance(value, int) and value for value in tokens.values()):
            output = int(tokens.get("output") or 0) + int(tokens.get("thoughts") or 0)
            yield Fact("usage", key, line, key, tokens=output)
        if message.get("type") == "user":
            found = prompt_class(_text(message.get("content")))
            if found:
                yield Fact("prompt", key, line, text=found)


def _gemini_messages(path: Path) -> Iterator[tuple[int, Json]]:
    if path.suffix == ".jsonl":
        yield from ((line, record) for line, record in records(path) if "type" in record and "id" in record)
        return
    document = _object(_decoded(path.read_bytes()))
    for message in _blocks(document.get("messages")):
        yield 1, message


def copied_requests(folder: Path) -> frozenset[str]:
    """Return the token counts of Codex that occur in several files below a folder: forks copy those of their origin."""
    seen: set[str] = set()
    copied: set[str] = set()
    for path in sorted(folder.rglob("*.jsonl")):
        here = {fact.id for fact in facts("codex", path) if fact.kind == "usage"}
        copied |= seen & here
        seen |= here
    return frozenset(copied)


# --- plans -----------------------------------------------------------------------------------------------------------


class PlanStart(NamedTuple):
    """The position in a session where the implementation of an approved plan starts."""

    path: Path
    line: int
    time: float


def plan_starts(folder: Path) -> list[PlanStart]:
    """Return where approved plans start in the sessions of Claude Code below a folder."""
    return [
        PlanStart(path, fact.line, fact.time)
        for path in sorted(folder.rglob("*.jsonl"))
        for fact in facts("claude", path)
        if fact.kind == "plan"
    ]
