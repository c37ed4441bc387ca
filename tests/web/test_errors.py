"""Errors as HTTP responses."""

from __future__ import annotations

import msgspec
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from unspool.core.errors import NotFoundError, UsageError
from unspool.runs.errors import ConflictError, SessionInUseError
from unspool.web.errors import describe, error_json


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
