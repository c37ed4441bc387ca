"""OpenTelemetry: valid OTLP, attributes of the conventions, one trace per session, and no event lost."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from unspool.core.session import Session
from unspool.formats import find_format
from unspool.formats.otel import CONVENTIONS, SCHEMA_URL, trace_lines
from unspool.formats.otlp import LONGEST_TEXT, attributes, clipped, nanoseconds

from .checks import check_spans
from .corpus import event_lines, recorded_sessions

PARTS = {
    "text": {"content"}, "reasoning": {"content"}, "tool_call": {"id", "name", "arguments"},
    "tool_call_response": {"id", "response"}, "blob": {"modality", "mime_type", "content"},
    "uri": {"modality", "mime_type", "uri"},
}  # fmt: skip
"""The parts of messages in the schemas of the conventions, and their fields."""


Recorded = tuple[Session, list[dict[str, Any]]]
"""A session and its spans."""


def known_attributes() -> set[str]:
    """The names in the library of the conventions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opentelemetry.semconv._incubating.attributes import (
            error_attributes,
            gen_ai_attributes,
            service_attributes,
            telemetry_attributes,
        )
    modules = (error_attributes, gen_ai_attributes, service_attributes, telemetry_attributes)
    return {value for module in modules for value in vars(module).values() if isinstance(value, str) and "." in value}


def value_of(attribute: dict[str, Any]) -> Any:
    [(kind, value)] = attribute["value"].items()
    return int(value) if kind == "intValue" else value


def fields_of(span: dict[str, Any]) -> dict[str, Any]:
    return {attribute["key"]: value_of(attribute) for attribute in span["attributes"]}


def messages_in(fields: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
        yield from ((name, message) for message in json.loads(fields.get(name, "[]")))


@pytest.fixture(scope="module")
def recorded() -> list[Recorded]:
    """The recorded sessions with their spans; not to be changed. Validating them takes longer than all tests do."""
    return [(session, check_spans(session)) for session in recorded_sessions()]


def test_recordings_are_valid_and_complete(recorded: list[Recorded]) -> None:
    """Ids are unique and well-formed, times are in order, parents exist, and every event is found again."""
    known = known_attributes()
    seen: Counter[str] = Counter()
    for session, spans in recorded:
        ids = [span["spanId"] for span in spans]
        assert len(set(ids)) == len(ids)
        assert len({span["traceId"] for span in spans}) == 1
        root = spans[-1]
        for span in spans:
            fields = fields_of(span)
            assert {name for name in fields if not name.startswith("unspool.")} <= known
            assert (len(span["traceId"]), len(span["spanId"])) == (32, 16)
            assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
            assert span is root or span["parentSpanId"] in ids
            assert fields["gen_ai.conversation.id"] == session.id
            seen[fields["gen_ai.operation.name"]] += 1
            for name, message in messages_in(fields):
                assert message["role"] in ("system", "user", "assistant", "tool")
                assert ("finish_reason" in message) == (name == "gen_ai.output.messages")
                for part in message["parts"]:
                    assert part.keys() - {"type"} == PARTS[part["type"]]
        events = Counter(event["name"] for span in spans for event in span.get("events", ()))
        expected = Counter(f"unspool.{json.loads(line)['type']}" for line in event_lines(session))
        assert events == expected
        seen.update(events)
        calls = [fields_of(span)["gen_ai.tool.call.id"] for span in spans if span["name"].startswith("execute_tool")]
        assert Counter(calls) == Counter(use.id for use in session.tool_calls())
        seen["links"] += sum(len(span.get("links", ())) for span in spans)
        seen["branches"] += any("unspool.branch" in fields_of(span) for span in spans)
    wanted = ("invoke_agent", "chat", "execute_tool", "links", "branches", "unspool.rejection", "unspool.compaction")
    assert all(seen[name] for name in (*wanted, "unspool.interruption", "unspool.subagent", "unspool.branch")), seen


def test_events_have_the_fields_of_the_record(recorded: list[Recorded]) -> None:
    """A rejection has its reason, who rejected, and the action."""
    for session, spans in recorded:
        found = [event for span in spans for event in span.get("events", ())]
        reasons = [
            fields_of(one).get("unspool.rejection.reason") for one in found if one["name"] == "unspool.rejection"
        ]
        assert sorted(map(str, reasons)) == sorted(str(rejection.reason) for rejection in session.rejections)
        kept = [one for one in found if one["name"] == "unspool.compaction"]
        numbers = [fields_of(one).get("unspool.compaction.pre_tokens") for one in kept]
        boundaries = [*session.compaction.boundaries, *session.compaction.inherited]
        assert Counter(numbers) == Counter(boundary.pre_tokens for boundary in boundaries)


def test_subagents_are_part_of_the_trace_of_their_session(recorded: list[Recorded]) -> None:
    """The span of the sub-agent has the parent's as its parent, and the call that started it links to it."""
    families: dict[str, list[Recorded]] = {}
    for session, its in recorded:
        families.setdefault(session.info.parent or session.id, []).append((session, its))
    linked = 0
    for family in families.values():
        spans = {session.id: its for session, its in family}
        for session, _ in family:
            parent = spans.get(session.info.parent or "")
            if parent is None:
                continue
            own = spans[session.id][-1]
            assert own["traceId"] == parent[-1]["traceId"]
            assert own["parentSpanId"] == parent[-1]["spanId"]
            linked += any(link["spanId"] == own["spanId"] for span in parent for link in span.get("links", ()))
    assert linked


def test_the_same_session_makes_the_same_spans() -> None:
    """Sending a trace again adds nothing."""
    session = next(recorded_sessions())
    assert list(trace_lines(session, session.id)) == list(trace_lines(session, session.id))


def test_the_version_of_the_conventions_is_named() -> None:
    assert CONVENTIONS in find_format("otel").version
    assert SCHEMA_URL.endswith(CONVENTIONS)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(2026, 11, 14, 15, 35, 54, 123457, tzinfo=UTC), "1794670554123457000"),
        (datetime(1969, 1, 1, tzinfo=UTC), "0"),
        (datetime(9999, 1, 1, tzinfo=UTC), str(2**64 - 1)),
    ],
)
def test_times_fit_in_the_protocol(moment: datetime, expected: str) -> None:
    assert nanoseconds(moment) == expected


def test_values_fit_in_the_protocol() -> None:
    """A number that is too large is text, and so is everything that is neither a plain value nor a list of texts."""
    made = {one["key"]: one["value"] for one in attributes({"a": 10**300, "b": [1], "c": ["x"], "d": True, "e": None})}
    assert made["a"] == {"stringValue": str(10**300)}
    assert made["b"] == {"stringValue": "[1]"}
    assert made["c"] == {"arrayValue": {"values": [{"stringValue": "x"}]}}
    assert made["d"] == {"boolValue": True}
    assert "e" not in made
    assert clipped("x" * LONGEST_TEXT) == "x" * LONGEST_TEXT
    assert clipped("x" * (LONGEST_TEXT + 1234)).endswith("\n[1,234 more characters were left out]")
