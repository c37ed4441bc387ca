"""Errors as HTTP responses."""

from __future__ import annotations

import logging

import msgspec
import pytest
from litestar import Litestar
from litestar.testing import RequestFactory, TestClient

from unspool.core.errors import MissingExtraError, NotFoundError, UsageError
from unspool.runs.errors import ConflictError, SessionInUseError
from unspool.web import errors
from unspool.web.errors import describe, error_json, on_error


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NotFoundError("gone"), 404, "not_found"),
        (UsageError("invalid"), 400, "bad_request"),
        (ConflictError("too late"), 409, "conflict"),
        (SessionInUseError("in use"), 409, "session_in_use"),
        (ValueError("a bug"), 500, "fault"),
    ],
)
def test_programs_recognise_an_error_by_its_code(error: Exception, status: int, code: str) -> None:
    """The code depends on the kind of error, never on the message."""
    reply = describe(error)
    assert reply.status == status
    body = msgspec.json.decode(error_json(reply.status, reply.message, reply.advice, reply.code))
    assert body["error"]["code"] == code


@pytest.mark.parametrize("path", ["/agents/needs", "/api/runs", "/api/agents"])
def test_a_server_without_agents_answers_not_found(client: TestClient[Litestar], path: str) -> None:
    """Scripts of its pages stop asking then."""
    assert client.get(path).status_code == 404


def test_an_expected_error_is_logged_in_one_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing package is no bug: its message says what to do, and a traceback would hide that."""
    log = logging.Logger("errors")
    log.addHandler(caplog.handler)
    monkeypatch.setattr(errors, "_log", log)
    request = RequestFactory().get("/api/runs")
    on_error(request, MissingExtraError("install it"))
    on_error(request, ValueError("a bug"))
    expected, bug = caplog.records
    assert expected.getMessage() == "GET /api/runs failed: install it"
    assert expected.exc_info is None
    assert bug.exc_info is not None


def test_a_page_that_does_not_exist_does_not_mention_the_api(client: TestClient[Litestar]) -> None:
    """Programs get the address of the list of endpoints, people do not need it."""
    assert "openapi" not in client.get("/nothing").text
    assert "openapi" in client.get("/api/nothing").text
