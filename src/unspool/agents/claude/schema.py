"""The records of Claude Code's session files (1.0 to 2.1.325)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ...core.timestamps import Moment
from ...io.decode import Count, RecordDecoder

ABSENT = Raw(b"")
SYNTHETIC = "<synthetic>"
"""The recorded model of a response, or the rest of one, that the agent wrote itself."""


class CacheCreation(msgspec.Struct, gc=False):
    """Tokens written to the cache, by the time they stay in it."""

    ephemeral_1h_input_tokens: Count | None = None


class ClaudeUsage(msgspec.Struct, gc=False):
    """Tokens of one request."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_creation: CacheCreation | None = None


class ToolUseResult(msgspec.Struct, rename="camel", gc=False):
    """Details of a result; for a sub-agent's call, the sub-agent."""

    agent_id: str | None = None
    status: str | None = None
    interrupted: bool | None = None


ResultDetails = ToolUseResult | str | list[Raw] | None


class ClaudeBlock(msgspec.Struct, gc=False):
    """A content block, of any type."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = ABSENT
    tool_use_id: str | None = None
    content: str | list[Any] | dict[str, Any] | None = None
    is_error: bool | None = None
    tool_use_result: ResultDetails = msgspec.field(default=None, name="toolUseResult")
    """Usually a field of the record."""
    source: Raw = ABSENT
    data: Raw = ABSENT


class ApiMessage(msgspec.Struct, gc=False):
    """The message as the API represents it."""

    id: str | None = None
    model: str | None = None
    content: str | list[ClaudeBlock] | None = None
    usage: ClaudeUsage | None = None
    stop_reason: str | None = None


class PermissionDecision(msgspec.Struct, rename="camel", gc=False):
    """The decision about a call (2.1.310 and later)."""

    decision: str | None = None
    source: str | None = None
    reason_type: str | None = None


class KindOnly(msgspec.Struct, gc=False):
    """An object; only its kind is read."""

    kind: str | None = None


class ForkedFrom(msgspec.Struct, rename="camel", gc=False):
    """The origin of a copied record."""

    session_id: str | None = None
    message_uuid: str | None = None


class Preserved(msgspec.Struct, rename="camel", gc=False):
    """Records before a compaction that stay in context."""

    uuids: list[str] = []
    all_uuids: list[str] = []


class CompactMetadata(msgspec.Struct, rename="camel", gc=False):
    """Details of a compaction."""

    trigger: str | None = None
    pre_tokens: Count | None = None
    post_tokens: Count | None = None
    preserved_messages: Preserved | None = None


class MicrocompactMetadata(msgspec.Struct, rename="camel", gc=False):
    """Details of a compaction that only drops results and attachments (2.1.37 and later)."""

    trigger: str | None = None
    pre_tokens: Count | None = None
    tokens_saved: Count | None = None
    compacted_tool_ids: list[str] = []
    cleared_attachments: list[str] = msgspec.field(default=[], name="clearedAttachmentUUIDs")


class AttachmentBody(msgspec.Struct, rename="camel", gc=False):
    """The body of an `attachment` record; fields that newer versions also record as sent to the model are raw."""

    type: str = "attachment"
    prompt: Any = None
    text: Raw = ABSENT
    content: Raw = ABSENT
    snippet: Raw = ABSENT
    stdout: Raw = ABSENT
    stderr: Raw = ABSENT
    filename: str | None = None
    path: str | None = None
    hook_name: str | None = None
    origin: KindOnly | None = None


class Progress(msgspec.Struct, rename="camel", gc=False):
    """The body of a `progress` record."""

    type: str = ""
    hook_name: str | None = None
    agent_id: str | None = None
    message: Raw = ABSENT
    """A record of a sub-agent."""


class Rendered(msgspec.Struct, gc=False):
    """An attachment as it was sent to the model."""

    content: str | list[Any] | dict[str, Any] | None = None


class ClaudeRecord(msgspec.Struct, rename="camel", gc=False):
    """A line of any type.

    The decoder searches for a key from the field after the last match, so the fields are in the order of most lines.
    """

    type: str = ""
    uuid: str | None = None
    is_meta: bool | None = None
    operation: str | None = None
    subtype: str | None = None
    timestamp: Moment | None = None
    rendered: list[Rendered] | None = None
    origin: KindOnly | None = None
    prompt_source: str | None = None
    entrypoint: str | None = None
    version: str | None = None
    leaf_uuid: str | None = None
    parent_uuid: str | UnsetType | None = UNSET
    is_sidechain: bool = False
    agent_id: str | None = None
    message: ApiMessage | None = None
    content: Any = None
    data: Progress | None = None
    interrupted_message_id: str | None = None
    error: Raw = ABSENT
    reason: str | None = None
    tool_use_result: ResultDetails = None
    summary: str | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    running_call: str | None = msgspec.field(default=None, name="parentToolUseID")
    compact_metadata: CompactMetadata | None = None
    microcompact_metadata: MicrocompactMetadata | None = None
    plan_content: str | None = None
    api_error_status: Count | None = None
    ai_title: str | None = None
    tool_denial_kind: str | None = None
    custom_title: str | None = None
    user_feedback: str | None = None
    permission_decision: PermissionDecision | None = None
    attachment: AttachmentBody | None = None
    logical_parent_uuid: str | None = None


class HeadRecord(ClaudeRecord, rename="camel", gc=False):
    """A record with the fields that every record repeats; only read at the beginning of a file."""

    session_id: str | None = None
    process_session: str | None = msgspec.field(default=None, name="session_id")
    cwd: str | None = None
    git_branch: str | None = None
    slug: str | None = None
    forked_from: ForkedFrom | None = None


class TimedRecord(msgspec.Struct, rename="camel", gc=False):
    """The type, the ids and the time of a record; its other fields are not decoded."""

    type: str = ""
    uuid: str | None = None
    timestamp: Moment | None = None
    session_id: str | None = None


class ClaudeHistoryRecord(msgspec.Struct, rename="camel", gc=False):
    """A line of `history.jsonl`: a prompt of any session."""

    display: str = ""
    timestamp: float | None = None
    project: str | None = None
    session_id: str | None = None


class AgentMeta(msgspec.Struct, rename="camel", gc=False):
    """A sub-agent's `meta.json`."""

    agent_type: str | None = None
    description: str | None = None
    tool_use_id: str | None = None
    spawn_depth: Count | None = None
    parent_agent_id: str | None = None
    request_shape: str | None = None
    finished: bool | None = None
    stopped_by_user: bool | None = None


_MARKS = frozenset(("uuid", "sessionId", "leafUuid", "messageId", "hash", "shapeHash", "display"))


def _is_record(value: dict[str, Any]) -> bool:
    """Whether an object is a record, not a smaller object inside one."""
    return ("type" in value or "parentUuid" in value) and not _MARKS.isdisjoint(value)


def _is_history(value: dict[str, Any]) -> bool:
    return "display" in value


RECORDS = RecordDecoder(ClaudeRecord, _is_record)
TIMES = RecordDecoder(TimedRecord, _is_record)
HEAD_RECORDS = RecordDecoder(HeadRecord, _is_record)
HISTORY = RecordDecoder(ClaudeHistoryRecord, _is_history)
