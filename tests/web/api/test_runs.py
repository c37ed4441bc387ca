"""Requests that act: what they accept."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from unspool.core.errors import UsageError
from unspool.web.api.run_schemas import AnswerBody
from unspool.web.api.runs import decoded_body

from .helpers import Client

INVALID = [b'{"who": "caf\xe9"}', b'{"\xff": 1}', b"\xff", b'{"who": 1}', b'{"who"']


@pytest.mark.parametrize("body", INVALID, ids=repr)
def test_an_invalid_body_is_the_mistake_of_the_client(client: Client, body: bytes) -> None:
    """Also one that is not in UTF-8."""
    answer = client.post("/api/phone", content=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"].startswith("Invalid request body: ")


def test_a_body_that_is_nested_too_deeply_is_invalid() -> None:
    """The input of a call may be anything."""
    data = b'{"input": {"x": ' + b"[" * 100_000

    async def body() -> bytes:
        return data

    request: Any = SimpleNamespace(body=body)
    with pytest.raises(UsageError, match="Invalid request body"):
        asyncio.run(decoded_body(request, AnswerBody))
