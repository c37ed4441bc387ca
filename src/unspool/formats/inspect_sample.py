"""Converts a session to a sample of an Inspect log: the conversation, and everything that happened as events."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from ..core import model as m
from ..core.context_growth import ContextGrowth
from ..core.session import Session, ToolUse
from .extension import NAMESPACE, Extension, Recorded, recorded_events, without_none
from .images import data_url
from .turns import Turn, prompt_tokens, text_of, turns_of
from .values import arguments_of, to_plain

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ERRORS = {"rejected": "approval", "interrupted": "cancelled", "tool_use_error": "parsing", "error": "unknown"}
"""Inspect's names for the outcomes of failed calls."""
_RUNNING = {"response": "generate", "tool": "tool_call", "subagent": "tool_call", "approval": "tool_call"}


def time_text(moment: datetime | None) -> str:
    """Format a time in UTC, which Inspect requires."""
    moment = moment or _EPOCH
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        # The time is at the limit of Python's range, and out of range in UTC.
        moment = moment.replace(tzinfo=UTC)
    text: str = to_plain(moment)
    return text


def sample_of(session: Session, id: str) -> dict[str, Any]:
    """Return the sample of a session."""
    info = session.info
    turns = list(turns_of(session))
    pool = _Pool(session)
    events = list(_Events(session, turns, pool).all())
    prompt = next((message.text for message in session.prompts() if message.branch == 0), info.title or "")
    responses = [turn for turn in turns if turn.is_response and not turn.branch]
    sample = {
        "id": id,
        "epoch": 1,
        "input": prompt,
        "target": "",
        "messages": [message for turn in turns if not turn.branch for message in _messages(turn)],
        "output": _output(responses[-1]) if responses else {"model": "", "choices": []},
        "metadata": {NAMESPACE: Extension(session).facts() | {"session": session.id}},
        "events": events,
        "model_usage": _model_usage(turns),
        "started_at": time_text(info.started_at) if info.started_at is not None else None,
        "completed_at": time_text(info.ended_at) if info.ended_at is not None else None,
        "total_time": _seconds(info.started_at, info.ended_at),
        "uuid": id,
        "events_data": {"messages": pool.messages, "calls": []},
    }
    return without_none(sample)


# --- messages --------------------------------------------------------------------------------------------------------


class _Pool:
    """The messages of all contexts without duplicates. A context is a list of ranges of them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._starts: list[int] = []
        self.messages: list[dict[str, Any]] = []
        calls: dict[str, str] = {}
        for message in session.messages:
            self._starts.append(len(self.messages))
            calls.update((block.id, block.name) for block in message.blocks if isinstance(block, m.ToolCall))
            self.messages += _chat_messages(message, message.blocks, calls)
        self._starts.append(len(self.messages))
        self._growth = ContextGrowth(session.context_map, session.context_map.tree)
        self._before: int | None = None
        self._context: set[int] = set()
        self._ranges: list[tuple[int, int]] = []

    def context_before(self, request: int) -> list[tuple[int, int]]:
        """Return the context of a request, as ranges of messages. Must be called in the order of the log."""
        added = self._growth.added(self._before, request, self._context) if self._before is not None else None
        if added is None:
            self._ranges = []
            self._context = set()
            added = self._session.context_map.before(request).indices
        else:
            added = sorted(set(added) - self._context)
        for index in added:
            start, end = self._starts[index], self._starts[index + 1]
            if self._ranges and self._ranges[-1][1] == start:
                self._ranges[-1] = self._ranges[-1][0], end
            elif end > start:
                self._ranges.append((start, end))
        self._context.update(added)
        self._before = request
        return list(self._ranges)


def _messages(turn: Turn) -> Iterator[dict[str, Any]]:
    """Yield the messages of a turn: its content, and the results of its calls."""
    if turn.first.role == "assistant":
        yield _assistant(turn)
    else:
        yield from _chat_messages(turn.first, turn.blocks, {})
    for use in turn.uses:
        if use.result is not None:
            yield _tool_message(use.result, use.name, f"{turn.first.index}.{use.id}")


def _assistant(turn: Turn) -> dict[str, Any]:
    first = turn.first
    calls = [_call(use.call) for use in turn.uses]
    message = {
        "id": str(first.index),
        "role": "assistant",
        "content": _content(turn.blocks),
        "source": "generate" if turn.is_response else None,
        "tool_calls": calls or None,
        "model": turn.model,
        "metadata": {NAMESPACE: _message_metadata(first, turn.indices)},
    }
    return without_none(message)


def _chat_messages(message: m.Message, blocks: list[m.Block], calls: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield a message as messages of Inspect, where each result is a separate message."""
    content = _content(blocks)
    own_calls = [_call(block) for block in blocks if isinstance(block, m.ToolCall)]
    results = [block for block in blocks if isinstance(block, m.ToolResult)]
    if content or own_calls:
        made = {
            "id": str(message.index), "role": message.role, "content": content,
            "tool_calls": own_calls or None if message.role == "assistant" else None,
            "metadata": {NAMESPACE: _message_metadata(message, [message.index])},
        }  # fmt: skip
        yield without_none(made)
    for number, result in enumerate(results):
        yield _tool_message(result, calls.get(result.call_id), f"{message.index}.{number}")


def _tool_message(result: m.ToolResult, name: str | None, id: str) -> dict[str, Any]:
    images = [image for part in result.parts if isinstance(part, m.Image) and (image := _image(part))]
    message = {
        "id": id,
        "role": "tool",
        "content": [{"type": "text", "text": result.content}, *images] if images else result.content,
        "tool_call_id": result.call_id,
        "function": name,
        "error": _error(result),
        "metadata": {NAMESPACE: {"outcome": result.outcome}},
    }
    return without_none(message)


def _content(blocks: list[m.Block]) -> list[dict[str, Any]]:
    return [part for block in blocks if (part := _part(block)) is not None]


def _part(block: m.Block) -> dict[str, Any] | None:
    match block:
        case m.Thinking():
            return {"type": "reasoning", "reasoning": block.text, "redacted": block.encrypted}
        case m.Image():
            return _image(block)
        case _:
            text = text_of(block)
            return {"type": "text", "text": text} if text else None


def _image(image: m.Image) -> dict[str, Any] | None:
    url = data_url(image) or image.url
    return {"type": "image", "image": url} if url else None


def _message_metadata(message: m.Message, indices: list[int]) -> dict[str, Any]:
    metadata = {
        "message_indices": indices, "author": message.author, "branch": message.branch or None,
        "context": message.context if message.context != "live" else None,
        "inherited": True if message.inherited else None,
    }  # fmt: skip
    return without_none(metadata)


def _call(call: m.ToolCall) -> dict[str, Any]:
    return {"id": call.id, "function": call.name, "arguments": arguments_of(call.raw_input), "type": "function"}


def _error(result: m.ToolResult) -> dict[str, Any] | None:
    kind = _ERRORS.get(result.outcome)
    return {"type": kind, "message": result.content} if kind is not None else None


def _output(turn: Turn) -> dict[str, Any]:
    choice = {"message": _assistant(turn), "stop_reason": "tool_calls" if turn.uses else "stop"}
    output = {"model": turn.model or "", "choices": [choice], "usage": _usage(turn.usage)}
    return without_none(output)


def _usage(usage: m.Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    total = (prompt_tokens(usage) or 0) + (usage.output or 0)
    counts = {
        "input_tokens": usage.input or 0, "output_tokens": usage.output or 0, "total_tokens": total,
        "input_tokens_cache_write": usage.cache_write, "input_tokens_cache_read": usage.cache_read,
        "reasoning_tokens": usage.reasoning,
    }  # fmt: skip
    return without_none(counts)


def _model_usage(turns: list[Turn]) -> dict[str, Any]:
    sums: dict[str, dict[str, int]] = {}
    for turn in turns:
        usage = _usage(turn.usage) if turn.is_response and not turn.first.inherited else None
        if usage is not None:
            total = sums.setdefault(turn.model or "unknown", {})
            for name, count in usage.items():
                total[name] = total.get(name, 0) + count
    return sums


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return max(0.0, (end - start).total_seconds()) if start is not None and end is not None else None


# --- events ----------------------------------------------------------------------------------------------------------


class _Events:
    """Makes the events of a session, in the order of the log."""

    def __init__(self, session: Session, turns: list[Turn], pool: _Pool) -> None:
        self._session = session
        self._turns = turns
        self._pool = pool
        self._start = session.info.started_at or _EPOCH
        self._now = self._start
        self._count = 0
        self._uses = {use.id: use for turn in turns for use in turn.uses}
        self._at: dict[int, list[Recorded]] = {}
        self._rest: list[Recorded] = []
        for known in recorded_events(session):
            (self._rest if known.message_index is None else self._at.setdefault(known.message_index, [])).append(known)

    def all(self) -> Iterator[dict[str, Any]]:
        """Yield responses, calls and the events of the record."""
        shown: set[int] = set()
        branch_points = {branch.parent_index for branch in self._session.branches if branch.parent_index is not None}
        for turn in self._turns:
            fresh = [index for index in turn.indices if index not in shown]
            shown.update(fresh)
            self._now = turn.timestamp or self._now
            if turn.is_response:
                yield self._model(turn)
                for use in turn.uses:
                    yield self._tool(use)
            for known in [known for index in fresh for known in self._at.get(index, ())]:
                yield self._recorded(known)
            for index in fresh:
                if index in branch_points:
                    yield self._event("anchor", {"anchor_id": _anchor(index)}, None)
        left = [known for index, found in self._at.items() if index not in shown for known in found]
        for known in (*left, *self._rest):
            yield self._recorded(known)

    def _event(self, name: str, fields: dict[str, Any], metadata: dict[str, Any] | None) -> dict[str, Any]:
        self._count += 1
        event = {
            "uuid": f"{self._count}",
            "timestamp": time_text(self._now),
            "working_start": max(0.0, (self._now - self._start).total_seconds()),
            "event": name,
            **fields,
            "metadata": {NAMESPACE: metadata} if metadata else None,
        }
        return without_none(event)

    def _model(self, turn: Turn) -> dict[str, Any]:
        fields = {
            "model": turn.model or "", "input": [], "input_refs": self._pool.context_before(turn.first.index),
            "tools": [], "tool_choice": "auto", "config": {}, "output": _output(turn),
            "completed": time_text(self._now),
        }  # fmt: skip
        return self._event("model", fields, _message_metadata(turn.first, turn.indices))

    def _tool(self, use: ToolUse) -> dict[str, Any]:
        result = use.result
        ended = self._session.messages[use.result_index].timestamp if use.result_index is not None else None
        fields = {
            "id": use.id, "function": use.name, "arguments": arguments_of(use.call.raw_input),
            "result": result.content if result is not None else "",
            "error": _error(result) if result is not None else None,
            "completed": time_text(ended) if ended is not None else None,
        }  # fmt: skip
        return self._event("tool", fields, {"outcome": use.outcome, "message_index": use.message_index})

    def _recorded(self, known: Recorded) -> dict[str, Any]:
        """Convert an event of the record to the equivalent event of Inspect, or to an `info` event if there is none."""
        match known.event:
            case m.Rejection() as event:
                name, fields = "approval", self._rejection(event)
            case m.InputChange() as event:
                call = {"id": event.tool_use_id, "function": event.tool_name, "type": "function"}
                asked, ran = (arguments_of(each.raw_input) for each in (event.asked, event.ran))
                name, fields = "approval", {
                    "message": "", "call": {**call, "arguments": asked}, "approver": "user", "decision": "modify",
                    "modified": {**call, "arguments": ran},
                }  # fmt: skip
            case m.Boundary() as event:
                scope = "summary" if event.scope == "messages" else "edit"
                name, fields = "compaction", {
                    "type": scope, "tokens_before": event.pre_tokens, "tokens_after": event.post_tokens,
                    "source": self._session.agent,
                }  # fmt: skip
            case m.Interruption() as event:
                name, fields = "interrupt", {
                    "source": "user_cancel" if event.type == "user" else "system",
                    "interrupted": _RUNNING[event.during],
                    "interrupted_tool_call_id": event.tool_use_ids[0] if event.tool_use_ids else None,
                }  # fmt: skip
            case m.Branch() as event:
                anchor = _anchor(event.parent_index) if event.parent_index is not None else ""
                name, fields = "branch", {"from_anchor": anchor}
            case _:
                name, fields = "info", {"source": NAMESPACE, "data": known.line}
        return self._event(name, fields, known.line)

    def _rejection(self, event: m.Rejection) -> dict[str, Any]:
        use = self._uses.get(event.tool_use_id or "")
        action = arguments_of(event.action.raw_input) if event.action is not None else {}
        call = {
            "id": event.tool_use_id or "",
            "function": event.tool_name or "",
            "arguments": action,
            "type": "function",
        }
        return {
            "message": "", "call": _call(use.call) if use is not None else call, "approver": event.by,
            "decision": "reject", "explanation": event.reason,
        }  # fmt: skip


def _anchor(index: int) -> str:
    return f"message-{index}"
