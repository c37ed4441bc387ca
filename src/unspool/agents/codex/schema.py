"""The lines of Codex CLI's rollout files, as they stand there (seen in 0.1 to 0.166)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from ...core.timestamps import Moment
from ...io.decode import RecordDecoder

ABSENT = Raw(b"")


class Content(msgspec.Struct, gc=False):
    """A piece of a message."""

    type: str = ""
    text: str | None = None
    image_url: str | None = None


class Passthrough(msgspec.Struct, gc=False):
    """What 0.166 notes on a message for itself."""

    content_item_kinds: list[str] | None = None


class TokenUsage(msgspec.Struct, gc=False):
    """Tokens; cached input is part of the input."""

    input_tokens: int = 0
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    output_tokens: int = 0
    reasoning_output_tokens: int | None = None
    total_tokens: int | None = None


class TokenInfo(msgspec.Struct, gc=False):
    """Body of a `token_count`."""

    total_token_usage: TokenUsage | None = None
    last_token_usage: TokenUsage | None = None


class Item(msgspec.Struct, gc=False):
    """A finished item of a turn (0.148 and later)."""

    type: str = ""
    id: str | None = None
    command: Raw = ABSENT
    status: str | None = None
    source: str | None = None
    kind: str | None = None
    tool: str | None = None
    agent_thread_id: str | None = None
    agent_path: str | None = None
    receiver_thread_ids: list[str] | None = None


class TurnError(msgspec.Struct, gc=False):
    """Why a turn failed."""

    message: str | None = None
    codex_error_info: Raw = ABSENT


class Payload(msgspec.Struct, gc=False):
    """The body of a line, of any type. In 0.29 and before it stands alone."""

    type: str = ""
    id: str | None = None
    role: str | None = None
    content: list[Content] | None = None
    internal_chat_message_metadata_passthrough: Passthrough | None = None
    # calls
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: Raw = ABSENT
    input: Raw = ABSENT
    output: Raw = ABSENT
    action: Raw = ABSENT
    status: str | None = None
    # reasoning
    summary: list[Content] | str | None = None
    encrypted_content: str | None = None
    # events
    message: str | None = None
    reason: str | None = None
    turn_id: str | None = None
    num_turns: int | None = None
    info: TokenInfo | None = None
    usage: TokenUsage | None = None
    item: Item | None = None
    error: TurnError | None = None
    codex_error_info: Raw = ABSENT
    new_thread_id: str | None = None
    replacement_history: list[Payload] | None = None
    # turn_context
    model: str | None = None
    approval_policy: Raw = ABSENT


# --- the first line --------------------------------------------------------------------------------------------------


class GitInfo(msgspec.Struct, gc=False):
    """State of the repository."""

    commit_hash: str | None = None
    branch: str | None = None


class HistoryBase(msgspec.Struct, gc=False):
    """The beginning of another file that this one goes on from (0.148 and later)."""

    thread_id: str | None = None
    end_ordinal_exclusive: int | None = None


class Meta(msgspec.Struct, gc=False):
    """Body of a `session_meta`, or the whole first line of 0.29 and before."""

    id: str | None = None
    timestamp: Moment | None = None
    cwd: str | None = None
    cli_version: str | None = None
    source: Raw = ABSENT
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    history_base: HistoryBase | None = None
    subagent_history_start_ordinal: int | None = None
    git: GitInfo | None = None


class MetaLine(msgspec.Struct, gc=False):
    """A line of which only the kind, and what the session says of itself, matter."""

    type: str = ""
    payload: Meta | None = None


# --- lines -----------------------------------------------------------------------------------------------------------


class Metadata(msgspec.Struct, gc=False):
    """What stands beside the body (0.166)."""

    compaction_output: bool | None = None


class Line(msgspec.Struct, gc=False):
    """One line, of any type."""

    type: str = ""
    timestamp: Moment | None = None
    ordinal: int | None = None
    payload: Payload = msgspec.field(default_factory=Payload)
    metadata: Metadata | None = None
    replacement_history: list[Payload] | None = None
    """Where older notes have it; the real programs write it into the body."""


class BareLine(Payload, gc=False):
    """A line of 0.29 and before, whose body stands alone; a later version may have gone on in the same file."""

    timestamp: Moment | None = None
    payload: Payload | None = None
    record_type: str | None = None


class IndexLine(msgspec.Struct, gc=False):
    """A line of `session_index.jsonl`."""

    id: str | None = None
    thread_name: str | None = None


class HistoryLine(msgspec.Struct, gc=False):
    """A line of `history.jsonl`."""

    session_id: str | None = None
    ts: float | None = None
    text: str = ""


def _is_record(value: dict[str, Any]) -> bool:
    """Tell a line from the smaller objects inside one."""
    return "payload" in value and "timestamp" in value


def _is_bare_record(value: dict[str, Any]) -> bool:
    return "record_type" in value or "instructions" in value or value.get("type") in _BARE_TYPES


_BARE_TYPES = frozenset(("message", "reasoning", "function_call", "function_call_output", "local_shell_call"))

LINES = RecordDecoder(Line, _is_record)
BARE_LINES = RecordDecoder(BareLine, _is_bare_record)
INDEX = RecordDecoder(IndexLine, lambda value: "thread_name" in value)
HISTORY = RecordDecoder(HistoryLine, lambda value: "text" in value)
META_LINES = RecordDecoder(MetaLine, _is_record)
BARE_META = RecordDecoder(Meta, _is_bare_record)
ITEMS = RecordDecoder(Payload, _is_bare_record)
