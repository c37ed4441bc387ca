"""Traces are sent to a collector: what it receives, and what is said when it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from unspool.core.errors import UnspoolError, UsageError
from unspool.formats.collector import HEADERS_VARIABLE, Collector
from unspool.formats.otel import trace_lines

from .corpus import recorded_sessions
from .receiver import Answer, collector


def waits() -> tuple[list[float], Any]:
    found: list[float] = []
    return found, found.append


def test_a_session_arrives() -> None:
    """As a valid request to the path of the protocol, with the headers of the variable."""
    session = next(recorded_sessions())
    with collector() as (address, received):
        target = Collector(address, {HEADERS_VARIABLE: "api-key=se%20cret, other = 1"})
        for line in trace_lines(session, session.id):
            target.send(line)
    [request] = received
    assert request.path == "/v1/traces"
    assert request.headers["Content-Type"] == "application/json"
    assert (request.headers["Api-Key"], request.headers["Other"]) == ("se cret", "1")
    parsed = json_format.ParseDict(json.loads(request.body), ExportTraceServiceRequest())
    assert parsed.resource_spans[0].scope_spans[0].spans
    assert target.sent == 1


@pytest.mark.parametrize(
    ("suffix", "path"),
    [("", "/v1/traces"), ("/", "/v1/traces"), ("/v1/traces", "/v1/traces"), ("/otlp/", "/otlp/v1/traces")],
)
def test_paths(suffix: str, path: str) -> None:
    with collector() as (address, received):
        Collector(address + suffix, {}).send(b"{}")
    assert [request.path for request in received] == [path]


def test_what_may_work_later_is_tried_again() -> None:
    """After as long as the collector asks for."""
    found, wait = waits()
    with collector(Answer(503, headers=(("Retry-After", "7"),)), Answer(429)) as (address, received):
        Collector(address, {}, wait).send(b"{}")
    assert len(received) == 3
    assert found == [7.0, 2.0]


def test_it_is_not_tried_forever() -> None:
    _, wait = waits()
    with collector(*[Answer(503, b"too busy")] * 9) as (address, received):
        with pytest.raises(UnspoolError, match=r"did not accept the trace: HTTP 503 .*: too busy"):
            Collector(address, {}, wait).send(b"{}")
        assert len(received) == 4


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(400, b"bad span"), "HTTP 400 Bad Request: bad span"),
        (Answer(413), "HTTP 413"),
        (Answer(302, headers=(("Location", "http://127.0.0.1:9/"),)), "HTTP 302 Found to http://127.0.0.1:9/"),
        (
            Answer(body=b'{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}'),
            "rejected 3 spans: too old",
        ),
    ],
)
def test_refusals(answer: Answer, why: str) -> None:
    """They say what the collector said; a redirect is not followed."""
    with collector(answer) as (address, received):
        with pytest.raises(UnspoolError, match=why):
            Collector(address, {}).send(b"{}")
        assert len(received) == 1


def test_answers_that_are_no_json_are_accepted() -> None:
    with collector(Answer(body=b"ok")) as (address, _):
        Collector(address, {}).send(b"{}")


def test_no_collector_and_no_secrets_in_the_error() -> None:
    with collector() as (address, _):
        pass
    target = Collector(address.replace("://", "://me:secret@") + "/?token=secret", {HEADERS_VARIABLE: "a=secret"})
    with pytest.raises(UnspoolError, match="did not accept the trace: ") as caught:
        target.send(b"{}")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["localhost:4318", "", "ftp://x", "http://", "http://[", "http://x:99999", "/tmp/x"]
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(UsageError, match="--to needs the URL of a collector"):
        Collector(address, {})


def test_headers_that_are_not_valid() -> None:
    with pytest.raises(UsageError, match="'a' in OTEL_EXPORTER_OTLP_HEADERS") as caught:
        Collector("http://localhost", {HEADERS_VARIABLE: "a=secret%0d%0aX: y"})
    assert "secret" not in str(caught.value)
