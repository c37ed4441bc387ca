"""Requests to the API, each response checked against the published schema."""

from __future__ import annotations

import json
from functools import cache
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import msgspec
from litestar import Litestar
from litestar.testing import TestClient

from unspool.store import Store
from unspool.store.filters import SessionFilter
from unspool.store.rows import SessionRow
from unspool.web.api.openapi import openapi
from unspool.web.api.params import find_endpoint
from unspool.web.api.routes import ENDPOINTS

Client = TestClient[Litestar]


AGENTS = ("claude", "codex", "gemini")


EVENT_LISTS = ("rejections", "interruptions", "compactions", "clears", "errors", "orphans")


@cache
def components() -> Any:
    """The schemas of the published description."""
    return openapi(ENDPOINTS)["components"]


@cache
def validator(name: str) -> Any:
    """A validator for a component of the published schema; in compiled code, because tests check whole records."""
    return jsonschema_rs.Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": components()})


def get(client: Client, address: str, **query: str | int) -> Any:
    """A successful response, checked against the published schema."""
    answer = client.get(address, params=query or None)
    assert answer.status_code == 200, answer.text
    endpoint, _ = find_endpoint(ENDPOINTS, address.encode())
    if endpoint.response is bytes:
        return answer.content
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    validator(endpoint.response.__name__).validate(found)
    return found


def address_of(row: SessionRow) -> str:
    return f"/api/sessions/{quote(row.name, safe='')}"


def plain(value: object) -> Any:
    """A value of the record as JSON."""
    return json.loads(msgspec.json.encode(value))


def rows_of(store: Store, agent: str) -> list[SessionRow]:
    return store.sessions.select(SessionFilter(agent=agent))
