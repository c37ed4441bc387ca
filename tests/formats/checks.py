"""Validates what is written in each format with the format's own library or schema."""

from __future__ import annotations

import json
import re
from functools import cache
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import jsonschema_rs
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import TypeAdapter

from unspool.core.session import Session
from unspool.formats.anthropic_request import anthropic_request
from unspool.formats.atif import trajectory
from unspool.formats.conversation import EmptyContextError, conversation_at
from unspool.formats.inspect_log import InspectLog
from unspool.formats.openai_request import openai_request
from unspool.formats.otel import SCHEMA_URL, trace_lines

from .inspect_schema import FOLDER, SCHEMA

NAME = re.compile(r"[a-zA-Z0-9_-]+")


# Importing these takes longer than anything else, and few tests use them.


@cache
def _anthropic() -> TypeAdapter[Any]:
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

    return TypeAdapter(MessageCreateParamsNonStreaming)


@cache
def _openai() -> TypeAdapter[Any]:
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

    return TypeAdapter(CompletionCreateParamsNonStreaming)


def drained(value: Any) -> Any:
    """Pydantic validates the items of an iterable when they are read."""
    if isinstance(value, dict):
        return {name: drained(inner) for name, inner in value.items()}
    return value if isinstance(value, str) or not hasattr(value, "__iter__") else [drained(inner) for inner in value]


def check_anthropic(request: dict[str, Any]) -> None:
    """Fields are known, roles alternate, texts are not blank, and results answer the calls before them."""
    assert drained(_anthropic().validate_python(request)) == request
    messages = request["messages"]
    assert [message["role"] for message in messages] == [("user", "assistant")[at % 2] for at in range(len(messages))]
    waiting: list[str] = []
    for message in messages:
        blocks = message["content"]
        assert blocks
        kinds = [block["type"] for block in blocks]
        assert "tool_result" not in kinds[len(waiting) :]
        assert [block["tool_use_id"] for block in blocks[: len(waiting)]] == waiting
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        assert all(NAME.fullmatch(id) for id in waiting)
    assert not waiting
    called = {block["name"] for message in messages for block in message["content"] if block["type"] == "tool_use"}
    assert called == {tool["name"] for tool in request.get("tools", ())}


def check_openai(request: dict[str, Any]) -> None:
    """Fields are known, and a message for each call follows the calls."""
    assert drained(_openai().validate_python(request)) == request
    waiting: list[str] = []
    for message in request["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting
        waiting = [one["id"] for one in message.get("tool_calls", ())]
        assert all(len(id) <= 40 and NAME.fullmatch(id) for id in waiting)
        assert "content" in message or waiting
    assert not waiting


def check_requests(session: Session, index: int | None = None) -> int:
    """Raise unless the context makes valid requests; returns the number of calls in it."""
    try:
        conversation = conversation_at(session, index)
    except EmptyContextError:
        return 0
    check_anthropic(anthropic_request(conversation))
    check_openai(openai_request(conversation))
    return sum(len(turn.calls) for turn in conversation.turns)


def check_trajectory(session: Session) -> dict[str, Any]:
    """The trajectory of a session, validated by the library of ATIF."""
    from atif import Trajectory

    data = b"".join(trajectory(session))
    Trajectory.model_validate_json(data)
    assert data.endswith(b"}\n")
    assert data.count(b"\n") == 1
    found: dict[str, Any] = json.loads(data)
    return found


def check_spans(session: Session) -> list[dict[str, Any]]:
    """The spans of a session, validated by the library of the protocol."""
    found = []
    for line in trace_lines(session, session.info.parent or session.id):
        request = json.loads(line)
        parsed = json_format.ParseDict(request, ExportTraceServiceRequest())
        assert parsed.resource_spans[0].schema_url == SCHEMA_URL
        found += request["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return found


def check_log(*sessions: Session) -> list[dict[str, Any]]:
    """The samples of a log, validated by the schema of Inspect."""
    writer = InspectLog()
    data = writer.begin(sessions[0] if sessions else None)
    data += b"".join(piece for session in sessions for piece in writer.session(session)) + writer.end()
    return check_log_file(data)


def check_log_file(data: bytes) -> list[dict[str, Any]]:
    """The same for a file."""
    with ZipFile(BytesIO(data)) as archive:
        assert archive.testzip() is None
        header = json.loads(archive.read("header.json"))
        summaries = json.loads(archive.read("summaries.json"))
        _inspect("EvalLog").validate(header)
        samples = []
        for summary in summaries:
            _inspect("EvalSampleSummary").validate(summary)
            sample = json.loads(archive.read(f"samples/{summary['id']}_epoch_1.json"))
            _inspect("EvalSample").validate(sample)
            samples.append(sample)
    assert header["results"]["total_samples"] == len(samples)
    return samples


@cache
def _inspect(model: str) -> Any:
    schema = json.loads((FOLDER / SCHEMA).read_text(encoding="utf-8"))
    for definition in schema["$defs"].values():
        # Inspect ignores fields that it does not know; none of ours may be among them.
        if "properties" in definition:
            definition.setdefault("additionalProperties", False)
    return jsonschema_rs.Draft202012Validator({**schema, "$ref": f"#/$defs/{model}"})


def check_all(session: Session) -> None:
    """Raise unless a session is valid in every format."""
    check_trajectory(session)
    check_spans(session)
    check_log(session)
    check_requests(session)
