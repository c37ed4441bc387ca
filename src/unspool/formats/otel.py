"""Exports sessions as OpenTelemetry traces: spans of the GenAI semantic conventions, as lines of OTLP/JSON.

A session is an `invoke_agent` span, its responses are `chat` spans, and its calls are `execute_tool` spans. Sub-agents
are part of the trace of their session. Events are span events, and everything that has no name in the conventions is
in attributes that start with `unspool.`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from .._version import __version__
from ..agents import agent_named
from ..core import model as m
from ..core.session import Session, ToolUse
from .extension import Extension
from .images import media_type_of
from .otlp import LONGEST_TEXT, attributes, clipped, clipped_values, nanoseconds, span_id, trace_id
from .turns import Turn, prompt_tokens, text_of, turns_of
from .values import decoded, encode

CONVENTIONS = "1.41.0"
SCHEMA_URL = f"https://opentelemetry.io/schemas/{CONVENTIONS}"
_INTERNAL, _CLIENT = 1, 3
_OK, _ERROR = 1, 2
_BATCH_SPANS = 256
_BATCH_BYTES = 2 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAILED = ("error", "rejected", "interrupted", "tool_use_error")


def trace_lines(session: Session, root: str) -> Iterator[bytes]:
    """Yield requests to a collector, one per line. `root` is the session that a sub-agent belongs to."""
    batch: list[bytes] = []
    size = 0
    for span in _Trace(session, root).spans():
        data = encode(span)
        if batch and (len(batch) >= _BATCH_SPANS or size + len(data) > _BATCH_BYTES):
            yield _request(session, batch)
            batch, size = [], 0
        batch.append(data)
        size += len(data)
    yield _request(session, batch)


def _request(session: Session, spans: list[bytes]) -> bytes:
    info = session.info
    resource = {
        "service.name": session.agent,
        "service.version": info.versions[-1] if info.versions else None,
        "telemetry.sdk.name": "unspool",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": __version__,
    }
    head = encode({"attributes": attributes(resource)})
    scope = encode({"name": "unspool", "version": __version__})
    url = encode(SCHEMA_URL)
    return (
        b'{"resourceSpans":[{"resource":'
        + head
        + b',"scopeSpans":[{"scope":'
        + scope
        + b',"spans":['
        + b",".join(spans)
        + b'],"schemaUrl":'
        + url
        + b'}],"schemaUrl":'
        + url
        + b"}]}\n"
    )


class _Trace:
    """Makes the spans of one session."""

    def __init__(self, session: Session, root: str) -> None:
        self._session = session
        self._trace = trace_id(f"{session.agent}:{root}")
        self._extension = Extension(session)
        self._agent = agent_named(session.agent).info
        self._start = session.info.started_at or session.info.ended_at or _EPOCH
        self._now = self._start
        """The last known time, for messages without a time."""
        self._shown: set[int] = set()
        self._subagents: dict[str, list[m.Subagent]] = {}
        for agent in session.subagents:
            if agent.tool_use_id is not None:
                self._subagents.setdefault(agent.tool_use_id, []).append(agent)

    def spans(self) -> Iterator[dict[str, Any]]:
        """Yield the spans of responses and calls, then that of the session, which has everything that is left."""
        inputs: dict[int, list[dict[str, Any]]] = {}
        outputs: list[dict[str, Any]] = []
        prompts: list[dict[str, Any]] = []
        for turn in turns_of(self._session):
            began = self._began(turn)
            if turn.is_response:
                shown = _parts(turn)
                finish = "tool_call" if turn.uses else "stop"
                outputs = [{"role": "assistant", "parts": shown, "finish_reason": finish}]
                yield self._chat(turn, began, inputs.pop(turn.branch, []), outputs)
                for position, use in enumerate(turn.uses):
                    yield self._tool(turn, position, use)
                results = [_response(use.result) for use in turn.uses if use.result is not None and use.result.sent]
                inputs[turn.branch] = [{"role": "tool", "parts": results}] if results else []
            elif parts := _parts(turn):
                message = {"role": turn.first.role, "parts": parts}
                inputs.setdefault(turn.branch, []).append(message)
                if turn.first.author == "human" and turn.first.role == "user":
                    prompts.append(message)
        yield self._root(prompts, outputs)

    # --- times ---

    def _began(self, turn: Turn) -> datetime:
        """Return when the request for a turn was sent: the time of the previous message."""
        parent = turn.first.parent_index
        before = self._session.messages[parent].timestamp if parent is not None else None
        began = before or self._now
        self._now = turn.timestamp or turn.first.timestamp or self._now
        return min(began, self._now)

    # --- spans ---

    def _root(self, prompts: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> dict[str, Any]:
        info = self._session.info
        own = {f"unspool.{name}": value for name, value in self._extension.facts().items()}
        shown = _first_texts(prompts)
        fields = {
            **self._common("invoke_agent"),
            "gen_ai.request.model": info.models[-1] if info.models else None,
            "gen_ai.agent.id": info.id if info.kind == "subagent" else None,
            "gen_ai.agent.description": info.title,
            **_usage(info.usage),
            "gen_ai.input.messages": encode(shown).decode() if shown else None,
            "gen_ai.output.messages": encode(outputs).decode() if outputs else None,
            "unspool.prompts.left_out": len(prompts) - len(shown) or None,
            **own,
        }
        span = self._span(
            (), f"invoke_agent {self._agent.title}", _INTERNAL, self._start, info.ended_at or self._now, fields
        )
        if info.parent is not None:
            span["parentSpanId"] = span_id(self._session.agent, info.parent)
        span["events"] = self._events(self._extension.elsewhere(self._shown), self._start)
        return span

    def _chat(
        self, turn: Turn, began: datetime, inputs: list[dict[str, Any]], outputs: list[dict[str, Any]]
    ) -> dict[str, Any]:
        own = [message.index for message in turn.messages]
        fields = {
            **self._common("chat"),
            "gen_ai.request.model": turn.model,
            "gen_ai.response.model": turn.model,
            "gen_ai.response.finish_reasons": [outputs[0]["finish_reason"]],
            **(_usage(turn.usage) if turn.usage is not None else {}),
            "gen_ai.input.messages": encode(inputs).decode() if inputs else None,
            "gen_ai.output.messages": encode(outputs).decode(),
            "unspool.input.is_new_only": True if inputs else None,
            **self._message_fields(turn, own),
        }
        name = f"chat {turn.model}" if turn.model else "chat"
        span = self._span(("chat", turn.first.index), name, _CLIENT, began, self._now, fields)
        span["parentSpanId"] = span_id(self._session.agent, self._session.id)
        span["events"] = self._events(self._extension.at(own), self._now)
        self._shown.update(own)
        return span

    def _tool(self, turn: Turn, position: int, use: ToolUse) -> dict[str, Any]:
        messages, result = self._session.messages, use.result
        began = messages[use.message_index].timestamp or self._now
        answered = messages[use.result_index] if use.result_index is not None else None
        ended = answered.timestamp if answered is not None and answered.timestamp is not None else began
        indices = [use.result_index] if use.result_index is not None and use.result_index not in self._shown else []
        fields = {
            **self._common("execute_tool"),
            "gen_ai.tool.name": use.name,
            "gen_ai.tool.call.id": use.id,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.arguments": encode(clipped_values(decoded(use.call.raw_input))).decode(),
            "gen_ai.tool.call.result": clipped(result.content) if result is not None else None,
            "error.type": use.outcome if use.outcome in _FAILED else None,
            "unspool.outcome": use.outcome,
            "unspool.exit_code": result.exit_code if result is not None else None,
            "unspool.rejected_by": use.rejection.by if use.rejection is not None else None,
            **self._message_fields(turn, [use.message_index, *indices]),
        }
        own = ("call", turn.first.index, position)
        span = self._span(own, f"execute_tool {use.name}", _INTERNAL, began, max(began, ended), fields)
        span["parentSpanId"] = span_id(self._session.agent, self._session.id)
        span["events"] = self._events(self._extension.at(indices), max(began, ended))
        span["links"] = [self._link(agent) for agent in self._subagents.get(use.id, ()) if agent.session is not None]
        if use.outcome in _FAILED:
            span["status"] = {"code": _ERROR, "message": use.outcome}
        elif use.outcome == "ok":
            span["status"] = {"code": _OK}
        self._shown.update(indices)
        return span

    def _link(self, agent: m.Subagent) -> dict[str, Any]:
        """Link a call to the sub-agent that it started."""
        fields = {"unspool.session": agent.session, "unspool.subagent.type": agent.agent_type}
        return {
            "traceId": self._trace,
            "spanId": span_id(self._session.agent, agent.session),
            "attributes": attributes(fields),
        }

    # --- parts of a span ---

    def _common(self, operation: str) -> dict[str, Any]:
        return {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": self._agent.provider or None,
            "gen_ai.conversation.id": self._session.id,
            "gen_ai.agent.name": self._agent.title,
        }

    def _message_fields(self, turn: Turn, indices: list[int]) -> dict[str, Any]:
        first = turn.first
        return {
            "unspool.message_indices": encode(indices).decode(),
            "unspool.branch": first.branch or None,
            "unspool.context": first.context,
            "unspool.inherited": True if first.inherited else None,
        }

    def _span(
        self, own: tuple[object, ...], name: str, kind: int, start: datetime, end: datetime, fields: dict[str, Any]
    ) -> dict[str, Any]:
        return {
            "traceId": self._trace,
            "spanId": span_id(self._session.agent, self._session.id, *own),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": nanoseconds(start),
            "endTimeUnixNano": nanoseconds(max(start, end)),
            "attributes": attributes(fields),
        }

    def _events(self, events: list[dict[str, Any]], otherwise: datetime) -> list[dict[str, Any]]:
        """Make span events, with the fields of the event as attributes."""
        made = []
        for event in events:
            tag = event["type"]
            fields = {f"unspool.{tag}.{name}": value for name, value in clipped_values(event[tag]).items()}
            if event.get("inherited"):
                fields[f"unspool.{tag}.inherited"] = True
            when = event[tag].get("timestamp")
            moment = datetime.fromisoformat(when) if when else otherwise
            made.append(
                {"name": f"unspool.{tag}", "timeUnixNano": nanoseconds(moment), "attributes": attributes(fields)}
            )
        return made


def _first_texts(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the texts of the first messages, as many as fit into an attribute."""
    found, size = [], 0
    for message in messages:
        parts = [part for part in message["parts"] if part["type"] == "text"]
        size += sum(len(part["content"]) for part in parts)
        if size > LONGEST_TEXT:
            break
        found.append({**message, "parts": parts})
    return found


def _usage(usage: m.Usage) -> dict[str, Any]:
    return {
        "gen_ai.usage.input_tokens": prompt_tokens(usage),
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
    }


def _parts(turn: Turn) -> list[dict[str, Any]]:
    """Return the content of a turn as parts of a message."""
    return [part for block in turn.blocks if (part := _part(block)) is not None]


def _part(block: m.Block) -> dict[str, Any] | None:
    match block:
        case m.ToolCall():
            arguments = clipped_values(decoded(block.raw_input))
            return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": arguments}
        case m.ToolResult():
            return _response(block)
        case m.Thinking(text=text):
            return {"type": "reasoning", "content": clipped(text)} if text else None
        case m.Image():
            return _image(block)
        case _:
            shown = text_of(block)
            return {"type": "text", "content": clipped(shown)} if shown else None


def _response(result: m.ToolResult) -> dict[str, Any]:
    return {"type": "tool_call_response", "id": result.call_id, "response": clipped(result.content)}


def _image(image: m.Image) -> dict[str, Any] | None:
    kind = media_type_of(image)
    if image.data and len(image.data) > LONGEST_TEXT:
        return {"type": "text", "content": f"[{kind or 'image'} of {len(image.data):,} characters, left out]"}
    if image.data:
        return {"type": "blob", "modality": "image", "mime_type": kind, "content": image.data}
    return {"type": "uri", "modality": "image", "mime_type": kind, "uri": image.url} if image.url else None
