"""The records of Codex CLI's rollout files (0.1 to 0.166)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from ...core.timestamps import Moment
from ...io.decode import Count, RecordDecoder

ABSENT = Raw(b"")


class CodexContent(msgspec.Struct, gc=False):
    """A part of a message."""

    type: str = ""
    text: str | None = None
    image_url: str | None = None


class MessageKinds(msgspec.Struct, gc=False):
    """Metadata that 0.166 adds to a message."""

    content_item_kinds: list[str] | None = None


class TokenUsage(msgspec.Struct, gc=False):
    """Token counts; the input includes tokens that are read from the cache or written to it."""

    input_tokens: Count = 0
    cached_input_tokens: Count | None = None
    cache_write_input_tokens: Count | None = None
    output_tokens: Count = 0
    reasoning_output_tokens: Count | None = None
    total_tokens: Count | None = None


class TokenInfo(msgspec.Struct, gc=False):
    """Body of a `token_count`."""

    total_token_usage: TokenUsage | None = None
    last_token_usage: TokenUsage | None = None


class RateLimits(msgspec.Struct, gc=False):
    """The limits of the account; with an API key there is no plan."""

    plan_type: str | None = None


class CodexItem(msgspec.Struct, gc=False):
    """A finished item of a turn (0.148 and later)."""

    type: str = ""
    id: str | None = None
    command: Raw = ABSENT
    kind: str | None = None
    tool: str | None = None
    agent_thread_id: str | None = None
    agent_path: str | None = None
    receiver_thread_ids: list[str] | None = None


class TurnError(msgspec.Struct, gc=False):
    """Why a turn failed."""

    message: str | None = None
    codex_error_info: Raw = ABSENT


class CodexPayload(msgspec.Struct, gc=False):
    """The body of a record of any type. Up to 0.29 it has no envelope."""

    type: str = ""
    id: str | None = None
    role: str | None = None
    content: list[CodexContent] | str | None = None
    internal_chat_message_metadata_passthrough: MessageKinds | None = None
    # calls
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    """The namespace of the tools of an MCP server, and of some of Codex's own."""
    arguments: Raw = ABSENT
    input: Raw = ABSENT
    output: Any = None
    """Text, parts or an object; it is nearly always needed, so it is decoded with the line."""
    action: Raw = ABSENT
    # reasoning
    summary: list[CodexContent] | str | None = None
    # events
    message: str | None = None
    reason: str | None = None
    turn_id: str | None = None
    num_turns: Count | None = None
    info: TokenInfo | None = None
    rate_limits: RateLimits | None = None
    usage: TokenUsage | None = None
    item: CodexItem | None = None
    error: TurnError | None = None
    codex_error_info: Raw = ABSENT
    new_thread_id: str | None = None
    event_id: str | None = None
    agent_thread_id: str | None = None
    kind: str | None = None
    replacement_history: list[CodexPayload] | None = None
    # turn_context
    model: str | None = None
    approval_policy: Raw = ABSENT
    approvals_reviewer: Raw = ABSENT


# --- the first line --------------------------------------------------------------------------------------------------


class GitInfo(msgspec.Struct, gc=False):
    """State of the repository."""

    commit_hash: str | None = None
    branch: str | None = None


class HistoryBase(msgspec.Struct, gc=False):
    """The beginning of another file that this one continues (0.148 and later)."""

    thread_id: str | None = None
    end_ordinal_exclusive: Count | None = None


class SessionMeta(msgspec.Struct, gc=False):
    """Body of a `session_meta`, or the whole first line of 0.29 and before."""

    id: str | None = None
    timestamp: Moment | None = None
    cwd: str | None = None
    cli_version: str | None = None
    source: Raw = ABSENT
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    history_base: HistoryBase | None = None
    subagent_history_start_ordinal: Count | None = None
    git: GitInfo | None = None


class MetaRecord(msgspec.Struct, gc=False):
    """A record; only its type and the description of the session are read."""

    type: str = ""
    payload: SessionMeta | None = None


# --- lines -----------------------------------------------------------------------------------------------------------


class RecordMetadata(msgspec.Struct, gc=False):
    """Metadata next to the body (0.166)."""

    compaction_output: bool | None = None


class CodexRecord(msgspec.Struct, gc=False):
    """A line of any type."""

    type: str = ""
    timestamp: Moment | None = None
    ordinal: Count | None = None
    payload: CodexPayload = msgspec.field(default_factory=CodexPayload)
    metadata: RecordMetadata | None = None
    replacement_history: list[CodexPayload] | None = None
    """Released versions write it into the body."""


class BareRecord(CodexPayload, gc=False):
    """A line of 0.29 and before, without an envelope; a later version may continue the same file."""

    timestamp: Moment | None = None
    payload: CodexPayload | None = None
    record_type: str | None = None


class IndexRecord(msgspec.Struct, gc=False):
    """A line of `session_index.jsonl`."""

    id: str | None = None
    thread_name: str | None = None


class CodexHistoryRecord(msgspec.Struct, gc=False):
    """A line of `history.jsonl`."""

    session_id: str | None = None
    ts: float | None = None
    text: str = ""


def _is_record(value: dict[str, Any]) -> bool:
    """Whether an object is a record, not a smaller object inside one."""
    return "payload" in value and "timestamp" in value


def _is_bare_record(value: dict[str, Any]) -> bool:
    return "record_type" in value or "instructions" in value or value.get("type") in _BARE_TYPES


_BARE_TYPES = frozenset(("message", "reasoning", "function_call", "function_call_output", "local_shell_call"))

RECORDS = RecordDecoder(CodexRecord, _is_record)
BARE_RECORDS = RecordDecoder(BareRecord, _is_bare_record)
INDEX = RecordDecoder(IndexRecord, lambda value: "thread_name" in value)
HISTORY = RecordDecoder(CodexHistoryRecord, lambda value: "text" in value)
META_RECORDS = RecordDecoder(MetaRecord, _is_record)
BARE_META = RecordDecoder(SessionMeta, _is_bare_record)
ITEMS = RecordDecoder(CodexPayload, _is_bare_record)
