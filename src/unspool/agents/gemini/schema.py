"""The records of Gemini CLI's session files (0.22 to 0.61)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ...core.timestamps import Moment
from ...io.decode import Count, RecordDecoder

ABSENT = Raw(b"")
REPLY_TYPES = frozenset(("gemini", "model"))
"""The types of a message of the model; `model` only occurs in documents."""


class FunctionCall(msgspec.Struct, gc=False):
    """A call as the API represents it."""

    id: str | None = None
    name: str | None = None
    args: Raw = ABSENT


class FunctionResponse(msgspec.Struct, gc=False):
    """A result as the API represents it."""

    id: str | None = None
    name: str | None = None
    response: Raw = ABSENT


class InlineData(msgspec.Struct, rename="camel", gc=False):
    """An image or other data."""

    mime_type: str | None = None
    data: str | None = None


class FileData(msgspec.Struct, rename="camel", gc=False):
    """A reference to a file."""

    mime_type: str | None = None
    file_uri: str | None = None


class GeminiPart(msgspec.Struct, rename="camel", gc=False):
    """A part of a message."""

    text: str | None = None
    thought: bool | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    inline_data: InlineData | None = None
    file_data: FileData | None = None


class Thought(msgspec.Struct, gc=False):
    """A summary of the reasoning of the model."""

    subject: str | None = None
    description: str | None = None


class GeminiTokens(msgspec.Struct, gc=False):
    """Tokens of one request; cached input is part of the input, thoughts are not part of the output."""

    input: Count | None = None
    output: Count | None = None
    cached: Count | None = None
    thoughts: Count | None = None
    tool: Count | None = None


class GeminiToolCall(msgspec.Struct, rename="camel", gc=False):
    """A finished call; unfinished calls are not written."""

    id: str = ""
    name: str = ""
    args: Raw = ABSENT
    result: list[GeminiPart] | GeminiPart | str | None = None
    status: str | None = None
    timestamp: Moment | None = None
    result_display: Raw = ABSENT
    agent_id: str | None = None
    error: str | None = None


class GeminiMessage(msgspec.Struct, rename="camel", gc=False):
    """A message, or a note of the interface."""

    id: str = ""
    type: str = ""
    timestamp: Moment | None = None
    content: str | list[GeminiPart] | GeminiPart | None = None
    display_content: str | list[GeminiPart] | GeminiPart | None = None
    model: str | UnsetType | None = UNSET
    tokens: GeminiTokens | None = None
    thoughts: list[Thought] | None = None
    tool_calls: list[GeminiToolCall] | None = None


class ConversationPatch(msgspec.Struct, rename="camel", gc=False):
    """A change of the header, or of the whole conversation."""

    messages: list[GeminiMessage] | None = None
    summary: str | None = None
    session_id: str | None = None


class GeminiRecord(GeminiMessage, rename="camel", gc=False):
    """A line of an append-only log: a message, a header, or a change."""

    set: ConversationPatch | None = msgspec.field(default=None, name="$set")
    rewind_to: str | None = msgspec.field(default=None, name="$rewindTo")
    session_id: str | None = None
    project_hash: str | None = None
    start_time: Moment | None = None
    kind: str | None = None
    summary: str | None = None


class UpdateStamp(msgspec.Struct, rename="camel", gc=False):
    """The change that follows every message and has its time; one near the end may have a summary."""

    last_updated: Moment | None = None
    summary: str | None = None


class TailRecord(msgspec.Struct, gc=False):
    """The time and the title in a line; its other fields are not decoded."""

    timestamp: Moment | None = None
    set: UpdateStamp | None = msgspec.field(default=None, name="$set")


def _is_record(value: dict[str, Any]) -> bool:
    """Whether an object is a record, not a smaller object inside one."""
    return "$set" in value or "$rewindTo" in value or "sessionId" in value or ("id" in value and "type" in value)


RECORDS = RecordDecoder(GeminiRecord, _is_record)
TAIL_RECORDS = RecordDecoder(TailRecord, _is_record)
MESSAGES = RecordDecoder(GeminiMessage, _is_record)
